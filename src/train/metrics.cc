#include "train/metrics.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace samestep {
namespace {

std::string Json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

template <typename Float>
std::string Shortest(Float value) {
  if (!std::isfinite(value)) return "null";
  const std::string text = fmt::format("{}", value);
  const bool integer = text.find_first_of(".e") == std::string::npos;
  return integer ? text + ".0" : text;  // a real for every reader, and -0.0 keeps its sign
}

// The whole lines up to `last_step`.
Result<std::string> KeptLines(const std::string& file, int64_t last_step, const std::string& path) {
  std::string kept;
  int64_t number = 0;
  for (size_t begin = 0; begin < file.size();) {
    ++number;
    const size_t end = file.find('\n', begin);
    if (end == std::string::npos) break;  // cut short by a crash
    const std::string_view line(file.data() + begin, end - begin);
    begin = end + 1;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    const auto step = object.is_object() ? object.find("step") : object.end();
    if (!object.is_object() || step == object.end() || !step->is_number_integer())
      return InvalidError("{}:{}: not a line of metrics; move the file away, or resume into another folder",
                          path, number);
    if (step->get<int64_t>() <= last_step) kept.append(line).append("\n");
  }
  return kept;
}

}  // namespace

MetricsLine::MetricsLine(int64_t step) : text_("{") { Integer("step", step); }

void MetricsLine::Add(std::string_view name, std::string_view json) {
  text_ += fmt::format("{}{}: {}", text_.size() > 1 ? ", " : "", Json(name), json);
}

MetricsLine& MetricsLine::Integer(std::string_view name, int64_t value) {
  Add(name, std::to_string(value));
  return *this;
}

MetricsLine& MetricsLine::Real(std::string_view name, double value) {
  Add(name, Shortest(value));
  return Text(fmt::format("{}_hex", name), fmt::format("{:016x}", std::bit_cast<uint64_t>(value)));
}

MetricsLine& MetricsLine::Real(std::string_view name, float value) {
  Add(name, Shortest(value));
  return Text(fmt::format("{}_hex", name), fmt::format("{:08x}", std::bit_cast<uint32_t>(value)));
}

MetricsLine& MetricsLine::Text(std::string_view name, std::string_view value) {
  Add(name, Json(value));
  return *this;
}

Result<MetricsWriter> MetricsWriter::Open(const std::string& path, int64_t resume_step) {
  if (FileExists(path)) {
    SAMESTEP_ASSIGN_OR_RETURN(const std::string before, ReadFile(path));
    SAMESTEP_ASSIGN_OR_RETURN(const std::string kept, KeptLines(before, resume_step, path));
    if (kept != before) SAMESTEP_RETURN_IF_ERROR(WriteFileAtomically(path, kept));
  }
  SAMESTEP_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  return MetricsWriter(std::move(file));
}

}  // namespace samestep
