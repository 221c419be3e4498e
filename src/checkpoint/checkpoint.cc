#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/version.h"
#include "checkpoint/safetensors.h"

namespace samestep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "samestep-checkpoint-1";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kPartial = ".partial";

std::string FolderName(int64_t step) { return fmt::format("step-{:08d}", step); }

bool IsCheckpointName(const std::string& name) {
  return name.size() >= 13 && name.starts_with("step-") &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

int64_t StepOf(const std::string& folder) { return std::stoll(folder.substr(folder.rfind("step-") + 5)); }

std::span<const std::byte> BytesOf(const TensorView& view) {
  SAMESTEP_CHECK(view.contiguous());
  return {static_cast<const std::byte*>(view.data), static_cast<size_t>(view.elements()) * sizeof(float)};
}

Json ScalarsToJson(const CheckpointScalars& s) {
  return {{"step", s.step},
          {"consumed_samples", s.consumed_samples},
          {"trajectory", s.trajectory.hex()},
          {"recipe_digest", s.recipe_digest},
          {"data_digest", s.data_digest},
          {"recipe", s.recipe}};
}

// The manifest without its last line, its digest, which covers all bytes before.
std::string ManifestBody(const CheckpointScalars& scalars, const std::vector<StateTensor>& tensors) {
  Json tensor_list = Json::object();
  std::vector<const StateTensor*> sorted;
  for (const StateTensor& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const StateTensor* t : sorted) {
    Json shape = Json::array();
    for (int i = 0; i < t->view.shape.rank(); ++i) shape.push_back(t->view.shape[i]);
    tensor_list[t->name] = {{"file", t->file},
                            {"dtype", NameOf(t->view.dtype)},
                            {"shape", shape},
                            {"fingerprint", FingerprintOf(t->view).hex()}};
  }
  const Json manifest = {{"schema", kSchema},
                         {"profile", kNumericsProfile},
                         {"state", ScalarsToJson(scalars)},
                         {"tensors", tensor_list}};
  return manifest.dump(1);
}

Status WriteTensorFiles(const std::string& folder, const std::vector<StateTensor>& tensors) {
  std::map<std::string, std::vector<SafetensorsOutput>> files;
  for (const StateTensor& t : tensors) {
    std::vector<uint64_t> shape;
    for (int i = 0; i < t.view.shape.rank(); ++i) shape.push_back(static_cast<uint64_t>(t.view.shape[i]));
    files[t.file].push_back(SafetensorsBytes(t.name, SafetensorsType::kF32, shape, BytesOf(t.view)));
  }
  for (const auto& [name, list] : files) {
    SAMESTEP_RETURN_IF_ERROR(WriteSafetensors(JoinPath(folder, name), list));
  }
  return {};
}

// Renamed first, so that a removal that is interrupted leaves no half checkpoint under a whole one's name.
Status RemoveCheckpoint(const std::string& folder) {
  const std::string doomed = folder + kPartial;
  SAMESTEP_RETURN_IF_ERROR(RemoveTree(doomed));
  SAMESTEP_RETURN_IF_ERROR(RenameDurably(folder, doomed));
  return RemoveTree(doomed);
}

Status Damaged(const std::string& path, const std::string& what) {
  return InvalidError(
      "{}: {}; the checkpoint is damaged: use an older one (train: --resume --from FOLDER; generate, export: "
      "--checkpoint FOLDER)",
      path, what);
}

Result<Shape> ShapeFrom(const Json& list) {
  Shape shape;
  if (!list.is_array() || list.size() > Shape::kMaxRank)
    return InvalidError("shape must be a list of at most 6 numbers");
  for (const Json& e : list) {
    if (!e.is_number_unsigned() || e.get<uint64_t>() > (uint64_t{1} << 48))
      return InvalidError("shape out of range");
    shape.Append(e.get<int64_t>());
  }
  return shape;
}

Result<Manifest> ManifestFrom(const Json& json) {
  Manifest manifest;
  const Json& state = json.at("state");
  CheckpointScalars& s = manifest.scalars;
  s.step = state.at("step").get<int64_t>();
  s.consumed_samples = state.at("consumed_samples").get<int64_t>();
  SAMESTEP_ASSIGN_OR_RETURN(s.trajectory, Digest::FromHex(state.at("trajectory").get<std::string>()));
  s.recipe_digest = state.at("recipe_digest").get<std::string>();
  s.data_digest = state.at("data_digest").get<std::string>();
  s.recipe = state.at("recipe").get<std::string>();
  for (const auto& [name, entry] : json.at("tensors").items()) {
    ManifestTensor& t = manifest.tensors[name];
    t.file = entry.at("file").get<std::string>();
    if (t.file.find('/') != std::string::npos)
      return InvalidError("tensor {}: file {} is not in the folder", name, t.file);
    SAMESTEP_ASSIGN_OR_RETURN(t.shape, ShapeFrom(entry.at("shape")));
    SAMESTEP_ASSIGN_OR_RETURN(t.fingerprint,
                              Fingerprint::FromHex(entry.at("fingerprint").get<std::string>()));
  }
  return manifest;
}

Status LoadTensor(const SafetensorsFile& file, const ManifestTensor& entry, const StateTensor& tensor) {
  const SafetensorsTensor* stored = file.Find(tensor.name);
  if (stored == nullptr) return Damaged(file.path(), fmt::format("tensor {} is missing", tensor.name));
  if (entry.shape != tensor.view.shape) {
    return InvalidError(
        "{}: tensor {} has shape {}, the recipe's has {}; resume with the recipe of the checkpoint",
        file.path(), tensor.name, entry.shape.ToString(), tensor.view.shape.ToString());
  }
  const std::span<const std::byte> memory = BytesOf(tensor.view);
  if (stored->type != SafetensorsType::kF32 || stored->bytes.size() != memory.size()) {
    return Damaged(file.path(),
                   fmt::format("tensor {} has {} bytes of {}, expected {} of F32", tensor.name,
                               stored->bytes.size(), SafetensorsTypeName(stored->type), memory.size()));
  }
  if (!memory.empty()) std::memcpy(tensor.view.data, stored->bytes.data(), memory.size());
  const Fingerprint found = FingerprintOf(tensor.view);
  if (!(found == entry.fingerprint)) {
    return Damaged(file.path(), fmt::format("tensor {} has fingerprint {}, the manifest says {}", tensor.name,
                                            found.hex(), entry.fingerprint.hex()));
  }
  return {};
}

}  // namespace

Status SaveCheckpoint(const std::string& root, const CheckpointScalars& scalars,
                      const std::vector<StateTensor>& tensors) {
  SAMESTEP_RETURN_IF_ERROR(MakeFolders(root));
  const std::string folder = JoinPath(root, FolderName(scalars.step)), partial = folder + kPartial;
  SAMESTEP_RETURN_IF_ERROR(RemoveTree(partial));
  SAMESTEP_RETURN_IF_ERROR(MakeFolders(partial));
  const auto write = [&]() -> Status {
    SAMESTEP_RETURN_IF_ERROR(WriteTensorFiles(partial, tensors));
    const std::string body = ManifestBody(scalars, tensors);
    return WriteFileAtomically(JoinPath(partial, kManifest), body + "\n" + DigestOf(body).hex() + "\n");
  };
  if (const Status status = write(); !status.ok()) {
    if (const Status removed = RemoveTree(partial); !removed.ok()) return removed;
    return status;
  }
  if (!FileExists(folder)) return RenameDurably(partial, folder);
  // One of the same step is there (a run that went back to an older checkpoint): they change places at once,
  // so that a crash leaves one of them whole.
  SAMESTEP_RETURN_IF_ERROR(ExchangeDurably(partial, folder));
  return RemoveTree(partial);
}

Result<std::vector<std::string>> ListCheckpoints(const std::string& root) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (FileExists(root)) {
    SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(root));
    for (const std::string& name : names) {
      if (!IsCheckpointName(name) || name.size() > 20 ||
          !FileExists(JoinPath(JoinPath(root, name), kManifest)))
        continue;
      found.emplace_back(StepOf(name), JoinPath(root, name));
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> folders;
  for (auto& [step, folder] : found) folders.push_back(folder);
  return folders;
}

Result<std::string> LatestCheckpoint(const std::string& root) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListCheckpoints(root));
  if (folders.empty())
    return NotFoundError(
        "{} holds no checkpoint yet; train.checkpoint_every, SIGTERM and the end of a run make one", root);
  return folders.back();
}

Status KeepCheckpoints(const std::string& root, int64_t count) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListCheckpoints(root));
  const int64_t surplus = static_cast<int64_t>(folders.size()) - count;
  for (int64_t i = 0; i < surplus; ++i)
    SAMESTEP_RETURN_IF_ERROR(RemoveCheckpoint(folders[static_cast<size_t>(i)]));
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(root));
  for (const std::string& name : names) {
    if (name.starts_with("step-") && name.ends_with(kPartial)) {
      SAMESTEP_RETURN_IF_ERROR(RemoveTree(JoinPath(root, name)));
    }
  }
  return {};
}

Status RemoveCheckpointsAfter(const std::string& root, int64_t step) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListCheckpoints(root));
  for (const std::string& folder : folders) {
    if (StepOf(folder) > step) SAMESTEP_RETURN_IF_ERROR(RemoveCheckpoint(folder));
  }
  return {};
}

Result<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, kManifest);
  SAMESTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, uint64_t{1} << 28));
  // The last line is the digest of what stands before it.
  constexpr size_t kDigestLine = 34;
  if (text.size() < kDigestLine || text.back() != '\n' || text[text.size() - kDigestLine] != '\n') {
    return Damaged(path, "the closing digest is missing");
  }
  const std::string body = text.substr(0, text.size() - kDigestLine);
  const std::string stated = text.substr(text.size() - kDigestLine + 1, 32);
  if (DigestOf(body).hex() != stated) {
    return Damaged(path,
                   fmt::format("its digest is {}, its last line says {}", DigestOf(body).hex(), stated));
  }
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Damaged(path, "not JSON");
  try {
    if (json.at("schema") != kSchema) {
      return InvalidError("{}: schema {}, this program reads {}; use the version that wrote it", path,
                          json.at("schema").dump(), kSchema);
    }
    if (json.at("profile") != kNumericsProfile) {
      return InvalidError("{}: numerics profile {}, this program computes {}; use the version that wrote it",
                          path, json.at("profile").dump(), kNumericsProfile);
    }
    Result<Manifest> manifest = ManifestFrom(json);
    if (!manifest.ok()) return Damaged(path, manifest.status().message());
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    return Damaged(path, error.what());
  }
}

Status LoadTensors(const std::string& folder, const Manifest& manifest,
                   const std::vector<StateTensor>& tensors, Coverage coverage) {
  std::set<std::string> wanted;
  std::map<std::string, SafetensorsFile> files;
  for (const StateTensor& t : tensors) {
    wanted.insert(t.name);
    const auto entry = manifest.tensors.find(t.name);
    if (entry == manifest.tensors.end()) {
      return InvalidError("{}: no tensor {}; resume with the recipe of the checkpoint", folder, t.name);
    }
    auto file = files.find(entry->second.file);
    if (file == files.end()) {
      const std::string path = JoinPath(folder, entry->second.file);
      Result<SafetensorsFile> opened = SafetensorsFile::Open(path);
      if (!opened.ok()) return Damaged(path, opened.status().message());
      file = files.emplace(entry->second.file, std::move(*opened)).first;
    }
    SAMESTEP_RETURN_IF_ERROR(LoadTensor(file->second, entry->second, t));
  }
  for (const auto& [name, entry] : manifest.tensors) {
    if (coverage == Coverage::kAll && !wanted.contains(name)) {
      return InvalidError(
          "{}: tensor {} is not in this recipe's model; resume with the recipe of the checkpoint", folder,
          name);
    }
  }
  return {};
}

}  // namespace samestep
