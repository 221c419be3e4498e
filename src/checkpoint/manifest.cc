#include "checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/version.h"
#include "checkpoint/box.h"

namespace samestep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "samestep-checkpoint-2";
constexpr const char* kSchemaOfWholeTensors = "samestep-checkpoint-1";  // still read
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxElements = uint64_t{1} << 48;
constexpr size_t kDigestLine = 34;  // line feed, 32 digits, line feed

Json JsonOf(const Shape& shape) {
  Json list = Json::array();
  for (int i = 0; i < shape.rank(); ++i) list.push_back(static_cast<uint64_t>(shape[i]));
  return list;
}

Json JsonOf(const CheckpointScalars& s) {
  return {{"step", s.step},
          {"consumed_samples", s.consumed_samples},
          {"trajectory", s.trajectory.hex()},
          {"recipe_digest", s.recipe_digest},
          {"data_digest", s.data_digest},
          {"recipe", s.recipe}};
}

Json JsonOf(const ManifestTensors& tensors) {
  Json list = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json parts = Json::array();
    for (const ManifestPart& part : tensor.parts) {
      parts.push_back({{"file", part.file},
                       {"name", part.name},
                       {"offsets", JsonOf(part.offsets)},
                       {"shape", JsonOf(part.shape)},
                       {"fingerprint", part.fingerprint.hex()}});
    }
    list[name] = {{"dtype", NameOf(DType::kF32)},
                  {"shape", JsonOf(tensor.shape)},
                  {"fingerprint", tensor.fingerprint.hex()},
                  {"parts", parts}};
  }
  return list;
}

// One or two numbers, as all state has; a product that is in range.
Result<Shape> ShapeFrom(const Json& list) {
  if (!list.is_array() || list.empty() || list.size() > 2)
    return InvalidError("a shape or offset is not a list of one or two numbers");
  Shape shape;
  uint64_t elements = 1;
  for (const Json& e : list) {
    if (!e.is_number_unsigned() || e.get<uint64_t>() > kMaxElements)
      return InvalidError("a shape or offset is out of range");
    const uint64_t extent = e.get<uint64_t>();
    if (extent != 0 && elements > kMaxElements / extent) return InvalidError("a shape is out of range");
    elements *= extent;
    shape.Append(static_cast<int64_t>(extent));
  }
  return shape;
}

Result<Fingerprint> FingerprintFrom(const Json& text) {
  return Fingerprint::FromHex(text.get<std::string>());
}

Result<CheckpointScalars> ScalarsFrom(const Json& json) {
  CheckpointScalars s;
  s.step = json.at("step").get<int64_t>();
  s.consumed_samples = json.at("consumed_samples").get<int64_t>();
  SAMESTEP_ASSIGN_OR_RETURN(s.trajectory, Digest::FromHex(json.at("trajectory").get<std::string>()));
  s.recipe_digest = json.at("recipe_digest").get<std::string>();
  s.data_digest = json.at("data_digest").get<std::string>();
  s.recipe = json.at("recipe").get<std::string>();
  return s;
}

Result<ManifestPart> PartFrom(const Json& json) {
  ManifestPart part;
  part.file = json.at("file").get<std::string>();
  if (part.file.empty() || part.file.find('/') != std::string::npos)
    return InvalidError("file \"{}\" is not in the folder", part.file);
  part.name = json.at("name").get<std::string>();
  SAMESTEP_ASSIGN_OR_RETURN(part.offsets, ShapeFrom(json.at("offsets")));
  SAMESTEP_ASSIGN_OR_RETURN(part.shape, ShapeFrom(json.at("shape")));
  if (part.offsets.rank() != part.shape.rank())
    return InvalidError("offsets {} of a part of shape {}", part.offsets.ToString(), part.shape.ToString());
  SAMESTEP_ASSIGN_OR_RETURN(part.fingerprint, FingerprintFrom(json.at("fingerprint")));
  return part;
}

Shape NoOffsets(const Shape& shape) {
  Shape offsets = shape;
  for (int i = 0; i < offsets.rank(); ++i) offsets[i] = 0;
  return offsets;
}

Result<ManifestTensor> TensorFrom(const std::string& name, const Json& json) {
  ManifestTensor tensor;
  if (json.at("dtype") != NameOf(DType::kF32))
    return InvalidError("dtype {}, expected \"{}\"", json.at("dtype").dump(), NameOf(DType::kF32));
  SAMESTEP_ASSIGN_OR_RETURN(tensor.shape, ShapeFrom(json.at("shape")));
  SAMESTEP_ASSIGN_OR_RETURN(tensor.fingerprint, FingerprintFrom(json.at("fingerprint")));
  if (!json.contains("parts")) {  // samestep-checkpoint-1: one part, which is the whole
    Json part = json;
    part["name"] = name;
    part["offsets"] = JsonOf(NoOffsets(tensor.shape));
    SAMESTEP_ASSIGN_OR_RETURN(ManifestPart whole, PartFrom(part));
    tensor.parts.push_back(std::move(whole));
    return tensor;
  }
  for (const Json& entry : json.at("parts")) {
    SAMESTEP_ASSIGN_OR_RETURN(ManifestPart part, PartFrom(entry));
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
}

Result<ManifestTensors> TensorsFrom(const Json& json) {
  if (!json.is_object()) return InvalidError("its tensors are no object");
  ManifestTensors tensors;
  for (const auto& [name, entry] : json.items()) {
    Result<ManifestTensor> tensor = TensorFrom(name, entry);
    if (!tensor.ok()) return InvalidError("tensor {}: {}", name, tensor.status().message());
    tensors.emplace(name, std::move(*tensor));
  }
  return tensors;
}

// Each tensor is covered exactly once, and its fingerprint is its parts'.
Status CheckWhole(const ManifestTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    std::vector<Box> boxes;
    Fingerprint sum;
    for (const ManifestPart& part : tensor.parts) {
      if (part.shape.rank() != tensor.shape.rank())
        return InvalidError("tensor {}: a part of shape {} in one of shape {}", name, part.shape.ToString(),
                            tensor.shape.ToString());
      boxes.push_back(BoxOf(part.offsets, part.shape));
      sum += part.fingerprint;
    }
    if (const std::string fault = TilingFault(tensor.shape, boxes); !fault.empty())
      return InvalidError("tensor {}: {}", name, fault);
    if (!(sum == tensor.fingerprint))
      return InvalidError("tensor {}: the fingerprints of its parts add up to {}, its own is {}", name,
                          sum.hex(), tensor.fingerprint.hex());
  }
  return {};
}

void SortParts(ManifestTensors* tensors) {
  for (auto& [name, tensor] : *tensors) {
    std::sort(tensor.parts.begin(), tensor.parts.end(), [](const ManifestPart& a, const ManifestPart& b) {
      const Box left = BoxOf(a.offsets, a.shape), right = BoxOf(b.offsets, b.shape);
      return left.row != right.row ? left.row < right.row : left.column < right.column;
    });
  }
}

// Adds one rank's parts to those of the ranks before it.
Status Merge(ManifestTensors more, ManifestTensors* all) {
  for (auto& [name, tensor] : more) {
    const auto [found, first] = all->try_emplace(name, ManifestTensor{tensor.shape, {}, {}});
    if (found->second.shape != tensor.shape)
      return InvalidError("tensor {} has shape {} here, {} on another rank", name, tensor.shape.ToString(),
                          found->second.shape.ToString());
    found->second.fingerprint += tensor.fingerprint;
    for (ManifestPart& part : tensor.parts) found->second.parts.push_back(std::move(part));
  }
  return {};
}

// The text before the closing digest, which must be its own.
Result<std::string> ReadBody(const std::string& path) {
  SAMESTEP_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kMaxManifestBytes));
  if (text.size() < kDigestLine || text.back() != '\n' || text[text.size() - kDigestLine] != '\n') {
    return DamagedCheckpoint(path, "the closing digest is missing");
  }
  const std::string stated = text.substr(text.size() - kDigestLine + 1, 32);
  text.resize(text.size() - kDigestLine);
  const std::string found = DigestOf(text).hex();
  if (found != stated)
    return DamagedCheckpoint(path, fmt::format("its digest is {}, its last line says {}", found, stated));
  return text;
}

Status CheckVersion(const std::string& path, const Json& json) {
  if (json.at("schema") != kSchema && json.at("schema") != kSchemaOfWholeTensors) {
    return InvalidError("{}: schema {}, this program reads {} and {}; use the version that wrote it", path,
                        json.at("schema").dump(), kSchemaOfWholeTensors, kSchema);
  }
  if (json.at("profile") != kNumericsProfile) {
    return InvalidError("{}: numerics profile {}, this program computes {}; use the version that wrote it",
                        path, json.at("profile").dump(), kNumericsProfile);
  }
  return {};
}

Result<Manifest> ManifestFrom(const Json& json) {
  Manifest manifest;
  SAMESTEP_ASSIGN_OR_RETURN(manifest.scalars, ScalarsFrom(json.at("state")));
  SAMESTEP_ASSIGN_OR_RETURN(manifest.tensors, TensorsFrom(json.at("tensors")));
  SAMESTEP_RETURN_IF_ERROR(CheckWhole(manifest.tensors));
  return manifest;
}

}  // namespace

Status DamagedCheckpoint(const std::string& path, const std::string& what) {
  return InvalidError(
      "{}: {}; the checkpoint is damaged: use an older one (train: --resume --from FOLDER; generate, export: "
      "--checkpoint FOLDER)",
      path, what);
}

Result<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  SAMESTEP_ASSIGN_OR_RETURN(const std::string body, ReadBody(path));
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DamagedCheckpoint(path, "not JSON");
  try {
    SAMESTEP_RETURN_IF_ERROR(CheckVersion(path, json));
    Result<Manifest> manifest = ManifestFrom(json);
    if (!manifest.ok()) return DamagedCheckpoint(path, manifest.status().message());
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return DamagedCheckpoint(path, error.what());
  }
}

std::string ManifestText(const Manifest& manifest) {
  const Json json = {{"schema", kSchema},
                     {"profile", kNumericsProfile},
                     {"state", JsonOf(manifest.scalars)},
                     {"tensors", JsonOf(manifest.tensors)}};
  const std::string body = json.dump(1);
  return body + "\n" + DigestOf(body).hex() + "\n";
}

std::string OwnedText(const Manifest& owned) {
  return Json{{"state", JsonOf(owned.scalars)}, {"tensors", JsonOf(owned.tensors)}}.dump();
}

Result<Manifest> MergeOwned(const std::vector<std::string>& texts) {
  Manifest all;
  Json state;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const Json json = Json::parse(texts[rank]);  // written by OwnedText of this very program
    if (rank == 0) state = json.at("state");
    if (json.at("state") != state)
      return InvalidError(
          "rank {} is at another step, or has another recipe, data or trajectory, than rank 0; nothing is "
          "saved",
          rank);
    SAMESTEP_ASSIGN_OR_RETURN(ManifestTensors tensors, TensorsFrom(json.at("tensors")));
    SAMESTEP_RETURN_IF_ERROR(Merge(std::move(tensors), &all.tensors));
  }
  SAMESTEP_ASSIGN_OR_RETURN(all.scalars, ScalarsFrom(state));
  SAMESTEP_RETURN_IF_ERROR(CheckWhole(all.tensors));
  SortParts(&all.tensors);
  return all;
}

}  // namespace samestep
