// safetensors.h: tensors by name in one file, as Hugging Face's safetensors lays them out.
//
//   SAMESTEP_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open("model.safetensors"));
//   const SafetensorsTensor* weight = file.Find("model.norm.weight");    // null if there is none
//   memcpy(target, weight->bytes.data(), weight->bytes.size());          // mapped: not aligned in general
//
//   std::vector<SafetensorsOutput> out;
//   out.push_back(SafetensorsBytes("w", SafetensorsType::kF32, {2, 3}, bytes));
//   SAMESTEP_RETURN_IF_ERROR(WriteSafetensors(path, out, {{"format", "pt"}}));
//
// The reader trusts nothing: it maps the file, checks the header and every offset before it gives out a
// tensor, and allocates no more than a small multiple of the header's bytes. A refusal names the tensor.
//
// Determinism: the bytes written depend on the arguments alone, and not on the order of `tensors`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"

namespace samestep {

// In the order of alignment, by which writers sort.
enum class SafetensorsType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view SafetensorsTypeName(SafetensorsType type);  // "BF16"
int SafetensorsTypeBits(SafetensorsType type);

struct SafetensorsTensor {
  std::string name;
  SafetensorsType type{};
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;  // row-major, little-endian
};

struct SafetensorsContent {
  std::vector<SafetensorsTensor> tensors;  // names ascending bytewise
  std::map<std::string, std::string> metadata;
  const SafetensorsTensor* Find(std::string_view name) const;
};

// Reads a whole file that is in memory; `path` is what messages call it. Tensors point into `file`.
Result<SafetensorsContent> ParseSafetensors(std::span<const std::byte> file, const std::string& path);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);
  const std::vector<SafetensorsTensor>& tensors() const { return content_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }
  const SafetensorsTensor* Find(std::string_view name) const { return content_.Find(name); }
  const std::string& path() const { return file_.path(); }

 private:
  SafetensorsFile(MappedFile file, SafetensorsContent content)
      : file_(std::move(file)), content_(std::move(content)) {}
  MappedFile file_;
  SafetensorsContent content_;
};

using ByteSink = std::function<Status(std::span<const std::byte>)>;

// A tensor to write. `produce` hands its bytes, in order and in as many pieces as it likes, to the sink: so
// what is not stored in one piece needs no second copy.
struct SafetensorsOutput {
  std::string name;
  SafetensorsType type{};
  std::vector<uint64_t> shape;
  std::function<Status(const ByteSink&)> produce;
};

SafetensorsOutput SafetensorsBytes(std::string name, SafetensorsType type, std::vector<uint64_t> shape,
                                   std::span<const std::byte> bytes);

// Written beside `path` and renamed. Names must differ, and must not be "__metadata__".
Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsOutput>& tensors,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace samestep
