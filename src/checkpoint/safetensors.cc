#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace samestep {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr uint64_t kLargestInteger = (uint64_t{1} << 48) - 1;  // of the format's schema
constexpr size_t kMostTensors = 1'000'000;
constexpr size_t kLongestName = 4096;
constexpr size_t kMostDimensions = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr std::array<TypeRow, 22> kTypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

std::optional<SafetensorsType> TypeOfName(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<SafetensorsType>(i);
  return std::nullopt;
}

std::string Json(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// A name as messages show it: quoted, escaped, of bounded length.
std::string Shown(std::string_view name) {
  constexpr size_t kLongestShown = 80;
  return Json(name.substr(0, kLongestShown)) + (name.size() > kLongestShown ? "..." : "");
}

// The bytes of a tensor, or nothing if that overflows or does not end on a byte.
std::optional<uint64_t> ByteCount(SafetensorsType type, const std::vector<uint64_t>& shape) {
  uint64_t bits = static_cast<uint64_t>(SafetensorsTypeBits(type));
  for (const uint64_t extent : shape)
    if (__builtin_mul_overflow(bits, extent, &bits)) return std::nullopt;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// A tensor as the header declares it.
struct Declared {
  std::string name;
  std::optional<SafetensorsType> type;
  std::optional<std::vector<uint64_t>> shape;
  std::optional<std::vector<uint64_t>> offsets;
};

// Receives the header piece by piece, so that duplicates and unexpected nesting are seen and nothing is built
// from them. Each function returns false at the first problem, which `problem` then names.
class HeaderReader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a truth value"); }
  bool number_integer(number_integer_t value) {
    return Unexpected(fmt::format("the negative integer {}", value));
  }
  bool number_float(number_float_t, const string_t& text) {
    return Unexpected(fmt::format("the number {}, which is not a 48-bit integer", Shown(text)));
  }
  bool binary(binary_t&) { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (list_ == nullptr) return Unexpected(fmt::format("the integer {}", value));
    if (value > kLargestInteger)
      return Refuse(fmt::format("tensor {}: {} in {} is above 2^48 - 1", Shown(name_), value, field_));
    if (list_->size() >= kMostDimensions)
      return Refuse(
          fmt::format("tensor {}: {} has more than {} entries", Shown(name_), field_, kMostDimensions));
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) {
    if (place_ == Place::kStrings) {
      metadata.emplace(field_, std::move(value));
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") return Unexpected("text");
    Declared& tensor = tensors.back();
    tensor.type = TypeOfName(value);
    if (!tensor.type) return Refuse(fmt::format("tensor {}: unknown dtype {}", Shown(name_), Shown(value)));
    return true;
  }

  bool start_object(size_t) {
    if (place_ == Place::kOutside && !began_) {
      began_ = true;
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return Unexpected("a nested object");
    place_ = name_ == kMetadata ? Place::kStrings : Place::kTensor;
    if (place_ == Place::kStrings) return true;
    if (tensors.size() >= kMostTensors) return Refuse(fmt::format("more than {} tensors", kMostTensors));
    tensors.push_back({name_, {}, {}, {}});
    return true;
  }

  bool key(string_t& key) {
    if (place_ == Place::kTop) {
      if (key.size() > kLongestName)
        return Refuse(
            fmt::format("a name of {} bytes; the longest accepted has {}", key.size(), kLongestName));
      if (!names_.insert(key).second) return Refuse(fmt::format("the name {} occurs twice", Shown(key)));
      name_ = key;
      return true;
    }
    field_ = key;
    if (place_ == Place::kStrings) {
      if (metadata.count(key) > 0) return Refuse(fmt::format("the metadata key {} occurs twice", Shown(key)));
      return true;
    }
    const Declared& tensor = tensors.back();
    const bool seen = (key == "dtype" && tensor.type) || (key == "shape" && tensor.shape) ||
                      (key == "data_offsets" && tensor.offsets);
    if (seen) return Refuse(fmt::format("tensor {}: {} occurs twice", Shown(name_), key));
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return Refuse(fmt::format("tensor {}: unknown field {}", Shown(name_), Shown(key)));
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      const Declared& tensor = tensors.back();
      const char* missing = !tensor.type      ? "dtype"
                            : !tensor.shape   ? "shape"
                            : !tensor.offsets ? "data_offsets"
                                              : nullptr;
      if (missing != nullptr) return Refuse(fmt::format("tensor {}: {} is missing", Shown(name_), missing));
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || list_ != nullptr || field_ == "dtype") return Unexpected("a list");
    Declared& tensor = tensors.back();
    list_ = &(field_ == "shape" ? tensor.shape : tensor.offsets).emplace();
    return true;
  }

  bool end_array() {
    list_ = nullptr;
    if (field_ != "data_offsets" || tensors.back().offsets->size() == 2) return true;
    return Refuse(fmt::format("tensor {}: data_offsets has {} entries; expected 2", Shown(name_),
                              tensors.back().offsets->size()));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return Refuse(fmt::format("not valid JSON at byte {} of the file", kLengthBytes + position));
  }

  std::vector<Declared> tensors;
  std::map<std::string, std::string> metadata;
  std::string problem;

 private:
  enum class Place { kOutside, kTop, kStrings, kTensor };

  bool Refuse(std::string text) {
    problem = std::move(text);
    return false;
  }
  bool Unexpected(const std::string& what) {
    if (place_ == Place::kOutside) return Refuse(fmt::format("is {}; expected an object", what));
    if (place_ == Place::kTop) return Refuse(fmt::format("{} is {}; expected an object", Shown(name_), what));
    return Refuse(fmt::format("{}: {} is {}", Shown(name_), Shown(field_), what));
  }

  Place place_ = Place::kOutside;
  bool began_ = false;
  std::string name_;   // of the tensor
  std::string field_;  // within the tensor or the metadata
  std::vector<uint64_t>* list_ = nullptr;
  std::set<std::string> names_;
};

// Offsets must tile the data exactly: no hole, no overlap, nothing left over.
Status CheckTiling(const std::vector<Declared>& tensors, uint64_t data_bytes, const std::string& path) {
  std::vector<const Declared*> order;
  for (const Declared& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const Declared* a, const Declared* b) {
    return *a->offsets != *b->offsets ? *a->offsets < *b->offsets : a->name < b->name;
  });
  uint64_t position = 0;
  for (const Declared* tensor : order) {
    const uint64_t begin = (*tensor->offsets)[0];
    const uint64_t end = (*tensor->offsets)[1];
    const std::string name = Shown(tensor->name);
    if (begin != position)
      return InvalidError(
          "{}: tensor {} begins at byte {} of the data; expected {}, where the one before ends", path, name,
          begin, position);
    if (end < begin)
      return InvalidError("{}: tensor {} ends at byte {}, before it begins at {}", path, name, end, begin);
    const std::optional<uint64_t> expected = ByteCount(*tensor->type, *tensor->shape);
    if (!expected)
      return InvalidError("{}: tensor {} of shape {} and type {} has no size in bytes that 64 bits hold",
                          path, name, ShapeText(*tensor->shape), SafetensorsTypeName(*tensor->type));
    if (end - begin != *expected)
      return InvalidError("{}: tensor {} has {} bytes; shape {} of {} needs {}", path, name, end - begin,
                          ShapeText(*tensor->shape), SafetensorsTypeName(*tensor->type), *expected);
    if (end > data_bytes)
      return InvalidError(
          "{}: truncated: tensor {} ends at byte {} of the data, of which the file holds {}; copy the "
          "file again",
          path, name, end, data_bytes);
    position = end;
  }
  if (position != data_bytes)
    return InvalidError("{}: {} bytes of data, of which the tensors account for {}", path, data_bytes,
                        position);
  return {};
}

}  // namespace

std::string_view SafetensorsTypeName(SafetensorsType type) { return kTypes[static_cast<size_t>(type)].name; }
int SafetensorsTypeBits(SafetensorsType type) { return kTypes[static_cast<size_t>(type)].bits; }

const SafetensorsTensor* SafetensorsContent::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const SafetensorsTensor& tensor, std::string_view n) { return tensor.name < n; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Result<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kLengthBytes)
    return InvalidError("{}: {} bytes; a safetensors file begins with an 8-byte length", path, file.size());
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) header_bytes |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (header_bytes > kLongestHeader)
    return InvalidError("{}: a header of {} bytes; at most {} are accepted: is this a safetensors file?",
                        path, header_bytes, kLongestHeader);
  if (header_bytes > file.size() - kLengthBytes)
    return InvalidError("{}: truncated: a header of {} bytes in a file of {}; copy the file again", path,
                        header_bytes, file.size());
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, header_bytes);
  const size_t first = header.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || header[first] != '{')
    return InvalidError("{}: the header does not begin with {{: is this a safetensors file?", path);
  // The JSON reader takes a zero byte for the end of its input.
  if (header.find('\0') != std::string_view::npos)
    return InvalidError("{}: the header holds a zero byte, at byte {} of the file", path,
                        kLengthBytes + header.find('\0'));
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader))
    return InvalidError("{}: header: {}", path, reader.problem);
  const std::span<const std::byte> data = file.subspan(kLengthBytes + header_bytes);
  SAMESTEP_RETURN_IF_ERROR(CheckTiling(reader.tensors, data.size(), path));

  SafetensorsContent content;
  content.metadata = std::move(reader.metadata);
  for (Declared& tensor : reader.tensors)
    content.tensors.push_back(
        {std::move(tensor.name), *tensor.type, *std::move(tensor.shape),
         data.subspan((*tensor.offsets)[0], (*tensor.offsets)[1] - (*tensor.offsets)[0])});
  std::sort(content.tensors.begin(), content.tensors.end(),
            [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.name < b.name; });
  return content;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SAMESTEP_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  SAMESTEP_ASSIGN_OR_RETURN(SafetensorsContent content, ParseSafetensors(file.bytes(), path));
  return SafetensorsFile(std::move(file), std::move(content));
}

SafetensorsOutput SafetensorsBytes(std::string name, SafetensorsType type, std::vector<uint64_t> shape,
                                   std::span<const std::byte> bytes) {
  return {std::move(name), type, std::move(shape), [bytes](const ByteSink& sink) { return sink(bytes); }};
}

Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsOutput>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsOutput*> order;
  for (const SafetensorsOutput& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const SafetensorsOutput* a, const SafetensorsOutput* b) {
    return a->type != b->type ? a->type > b->type : a->name < b->name;
  });

  std::set<std::string_view> names;
  for (const SafetensorsOutput* tensor : order) SAMESTEP_CHECK(names.insert(tensor->name).second);
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("{}:{}", Json(kMetadata), Json(metadata));
  std::vector<uint64_t> sizes;
  uint64_t position = 0;
  for (const SafetensorsOutput* tensor : order) {
    const std::optional<uint64_t> bytes = ByteCount(tensor->type, tensor->shape);
    SAMESTEP_CHECK(bytes.has_value() && tensor->name != kMetadata);
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        text.size() > 1 ? "," : "", Json(tensor->name), SafetensorsTypeName(tensor->type),
                        fmt::join(tensor->shape, ","), position, position + *bytes);
    sizes.push_back(*bytes);
    position += *bytes;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length += static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xFF);

  SAMESTEP_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Create(path));
  SAMESTEP_RETURN_IF_ERROR(out.Write(length.data(), length.size()));
  SAMESTEP_RETURN_IF_ERROR(out.Write(text.data(), text.size()));
  const ByteSink sink = [&out](std::span<const std::byte> bytes) {
    return out.Write(bytes.data(), bytes.size());
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const uint64_t begin = out.position();
    SAMESTEP_RETURN_IF_ERROR(order[i]->produce(sink));
    SAMESTEP_CHECK_EQ(out.position() - begin, sizes[i]);
  }
  return out.Commit();
}

}  // namespace samestep
