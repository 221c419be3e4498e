#include "trace/capture.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "trace/bytes.h"

namespace samestep {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = uint64_t{1} << 20;

bool Fits(std::string_view pattern, std::string_view text) {
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}

// The names of safetensors; what it has no name for is kept as bytes.
std::string_view SafetensorsName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
    case DType::kI8:
      return "I8";
    case DType::kI16:
      return "I16";
    case DType::kU16:
      return "U16";
    case DType::kI32:
      return "I32";
    case DType::kU32:
      return "U32";
    case DType::kI64:
      return "I64";
    case DType::kU64:
      return "U64";
    case DType::kBool:
      return "BOOL";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kF8E5M2:
      return "F8_E5M2";
    default:
      return "U8";
  }
}

std::vector<int64_t> Extents(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

std::string NameOfTensor(const TensorSite& site) { return (site.output ? "output." : "input.") + site.role; }

void PackDimension(const TensorView& view, int dimension, int64_t at, std::string* out) {
  const int bits = BitsOf(view.dtype);
  if (dimension == view.shape.rank()) {
    out->append(static_cast<const char*>(view.data) + at * bits / 8, static_cast<size_t>(bits / 8));
    return;
  }
  for (int64_t i = 0; i < view.shape[dimension]; ++i) {
    PackDimension(view, dimension + 1, at + i * view.strides[dimension], out);
  }
}

Result<uint64_t> ParseBytes(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : unit.empty() ? 0 : -1;
  if (error != std::errc() || shift < 0 || value > (UINT64_MAX >> 31)) {
    return UsageError("SAMESTEP_CAPTURE: limit={}; expected a number of bytes such as 500M or 2G", text);
  }
  return value << shift;
}

}  // namespace

Result<CaptureRules> CaptureRules::Parse(std::string_view text) {
  CaptureRules rules;
  while (!text.empty()) {
    const size_t semicolon = text.find(';');
    std::string_view one = text.substr(0, semicolon);
    text.remove_prefix(semicolon == std::string_view::npos ? text.size() : semicolon + 1);
    Rule rule;
    bool selects = false;
    // A comma ends a pair only where a key follows: iteration=1-3,8 is one pair.
    std::vector<std::string> pairs;
    while (!one.empty()) {
      const size_t comma = one.find(',');
      const std::string_view piece = one.substr(0, comma);
      if (piece.find('=') == std::string_view::npos && !pairs.empty()) {
        pairs.back() += fmt::format(",{}", piece);
      } else {
        pairs.emplace_back(piece);
      }
      one.remove_prefix(comma == std::string_view::npos ? one.size() : comma + 1);
    }
    for (const std::string& pair : pairs) {
      const size_t equals = pair.find('=');
      const std::string key = pair.substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : pair.substr(equals + 1);
      selects = selects || key != "limit";
      if (key == "kernel" && !value.empty()) {
        rule.kernel = value;
      } else if (key == "module" && !value.empty()) {
        rule.module = value;
      } else if (key == "phase" && !value.empty()) {
        rule.phase = value;
      } else if (key == "iteration") {
        SAMESTEP_ASSIGN_OR_RETURN(rule.iterations, Selection::Parse(value, "SAMESTEP_CAPTURE: iteration"));
      } else if (key == "occurrence") {
        SAMESTEP_ASSIGN_OR_RETURN(rule.occurrences, Selection::Parse(value, "SAMESTEP_CAPTURE: occurrence"));
      } else if (key == "limit") {
        SAMESTEP_ASSIGN_OR_RETURN(rules.limit_, ParseBytes(value));
      } else {
        return UsageError(
            "SAMESTEP_CAPTURE: \"{}\"; expected kernel=, module=, phase=, iteration=, occurrence= or limit=, "
            "as "
            "in kernel=linear.forward,iteration=3",
            pair);
      }
    }
    if (selects) rules.rules_.push_back(std::move(rule));
  }
  return rules;
}

bool CaptureRules::Match(std::string_view kernel, std::string_view module, Phase phase, int64_t iteration,
                         int64_t occurrence) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return Fits(rule.kernel, kernel) && Fits(rule.module, module) && Fits(rule.phase, PhaseName(phase)) &&
           rule.iterations.Has(iteration) && rule.occurrences.Has(occurrence);
  });
}

const CapturedTensor* Capture::Find(std::string_view role, bool output) const {
  for (const CapturedTensor& t : tensors) {
    if (t.site.role == role && t.site.output == output) return &t;
  }
  return nullptr;
}

std::string PackedBytes(const TensorView& view) {
  const auto bits = static_cast<uint64_t>(BitsOf(view.dtype));
  const uint64_t size = (static_cast<uint64_t>(view.elements()) * bits + 7) / 8;
  // Two 4-bit elements share a byte; kernels give such tensors contiguous.
  if (view.contiguous() || bits < 8) return std::string(static_cast<const char*>(view.data), size);
  std::string out;
  out.reserve(size);
  PackDimension(view, 0, 0, &out);
  return out;
}

std::string CapturePath(const std::string& folder, int32_t rank, int32_t ranks, const SegmentKey& key,
                        uint64_t event) {
  return JoinPath(folder, fmt::format("capture-{:05}-of-{:05}-{}{:08}-{:06}.safetensors", rank, ranks,
                                      key.after ? "after" : "iteration", key.iteration, event));
}

Status WriteCapture(const std::string& path, const Capture& capture) {
  json header;
  uint64_t at = 0;
  for (const CapturedTensor& t : capture.tensors) {
    const std::string_view name = SafetensorsName(t.site.dtype);
    const bool raw = name == "U8" && t.site.dtype != DType::kU8;
    header[NameOfTensor(t.site)] = {
        {"dtype", name},
        {"shape", raw ? std::vector<int64_t>{static_cast<int64_t>(t.bytes.size())} : Extents(t.site.shape)},
        {"data_offsets", {at, at + t.bytes.size()}}};
    at += t.bytes.size();
  }
  json attributes = json::object();
  for (size_t i = 0; i < capture.site.attributes.size(); ++i) {
    attributes[capture.site.attributes[i].name] = {{"is_float", capture.site.attributes[i].is_float},
                                                   {"bits", fmt::format("{:016x}", capture.values[i])}};
  }
  // The site in its canonical bytes is what is read back; the rest is for people and other programs.
  std::string hex;
  for (const char c : SiteBytes(capture.site)) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  std::string values;
  for (const uint64_t v : capture.values) values += fmt::format("{:016x}", v);
  header["__metadata__"] = {{"format", "samestep.capture.1"},
                            {"iteration", std::to_string(capture.key.iteration)},
                            {"after", capture.key.after ? "1" : "0"},
                            {"event", std::to_string(capture.event)},
                            {"phase", PhaseName(capture.site.phase)},
                            {"module", capture.site.module},
                            {"kernel", capture.site.name},
                            {"attributes", attributes.dump()},
                            {"values", values},
                            {"site", hex}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  SAMESTEP_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Create(path));
  ByteWriter length;
  length.Fixed(text.size(), 8);
  SAMESTEP_RETURN_IF_ERROR(out.Write(length.bytes().data(), length.size()));
  SAMESTEP_RETURN_IF_ERROR(out.Write(text.data(), text.size()));
  for (const CapturedTensor& t : capture.tensors) {
    SAMESTEP_RETURN_IF_ERROR(out.Write(t.bytes.data(), t.bytes.size()));
  }
  return out.Commit();
}

Result<Capture> ReadCapture(const std::string& path) {
  SAMESTEP_ASSIGN_OR_RETURN(MappedFile map, MappedFile::Open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
  ByteReader in(bytes);
  const uint64_t length = in.Fixed(8);
  const std::string_view text = in.Raw(length <= kMaxHeader ? length : UINT64_MAX);
  const json header = json::parse(text, nullptr, false);
  if (!in.ok() || !header.is_object()) return InvalidError("{}: no capture", path);
  const std::string_view data = bytes.substr(8 + length);
  Capture capture;
  try {
    const json& meta = header.at("__metadata__");
    capture.key = {std::stoll(meta.at("iteration").get<std::string>()), meta.at("after") == "1"};
    capture.event = std::stoull(meta.at("event").get<std::string>());
    const auto hex = meta.at("site").get<std::string>();
    std::string site;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      site += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    SAMESTEP_ASSIGN_OR_RETURN(capture.site, ParseSite(site));
    const auto values = meta.at("values").get<std::string>();
    for (size_t i = 0; i + 15 < values.size(); i += 16) {
      capture.values.push_back(std::stoull(values.substr(i, 16), nullptr, 16));
    }
    for (const TensorSite& tensor : capture.site.tensors) {
      const json& offsets = header.at(NameOfTensor(tensor)).at("data_offsets");
      const auto begin = offsets.at(0).get<uint64_t>(), end = offsets.at(1).get<uint64_t>();
      const uint64_t size =
          (static_cast<uint64_t>(tensor.shape.elements()) * static_cast<uint64_t>(BitsOf(tensor.dtype)) + 7) /
          8;
      if (begin > end || end > data.size() || end - begin != size) {
        return InvalidError("{}: {} lies outside of the file's {} bytes", path, NameOfTensor(tensor),
                            bytes.size());
      }
      capture.tensors.push_back({tensor, std::string(data.substr(begin, size))});
    }
  } catch (const std::exception& e) {
    return InvalidError("{}: its metadata are not a capture's: {}", path, e.what());
  }
  if (capture.values.size() != capture.site.attributes.size()) {
    return InvalidError("{}: its attributes do not fit its site", path);
  }
  return capture;
}

}  // namespace samestep
