#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <map>

#include "base/files.h"
#include "checkpoint/box.h"
#include "checkpoint/safetensors.h"
#include "comm/world.h"

namespace samestep {
namespace {

constexpr const char* kPartial = ".partial";

std::string FolderName(int64_t step) { return fmt::format("step-{:08d}", step); }

bool IsCheckpointName(const std::string& name) {
  return name.size() >= 13 && name.starts_with("step-") &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

int64_t StepOf(const std::string& folder) { return std::stoll(folder.substr(folder.rfind("step-") + 5)); }

// "weights.safetensors"; of several ranks "weights-00003-of-00008.safetensors", ranks counted from 0.
std::string FileName(const std::string& kind, const Communicator& group) {
  if (group.size() == 1) return kind + ".safetensors";
  return fmt::format("{}-{:05d}-of-{:05d}.safetensors", kind, group.rank(), group.size());
}

std::string CommaSeparated(const Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i ? "," : "", shape[i]);
  return text;
}

void CheckView(const TensorView& view) {
  SAMESTEP_CHECK(view.dtype == DType::kF32 && view.contiguous());
  SAMESTEP_CHECK(view.placement != Placement::kPartial);
  SAMESTEP_CHECK_EQ(view.global_shape.rank(), view.shape.rank());
  const Box box = BoxOf(view);
  SAMESTEP_CHECK(Shared(box, WholeBox(view.global_shape)) == box);
}

// A part that this rank writes, and the memory that it lies in.
struct OwnedPart {
  ManifestPart part;
  TensorView view;
};

struct Owned {
  Manifest manifest;             // this rank's parts only
  std::vector<OwnedPart> parts;  // what goes to its files
};

Owned OwnedBy(const Communicator& group, const CheckpointScalars& scalars,
              const std::vector<StateTensor>& tensors) {
  std::map<std::string, int> parts_of;
  for (const StateTensor& t : tensors) ++parts_of[t.name];
  Owned owned;
  owned.manifest.scalars = scalars;
  for (const StateTensor& t : tensors) {
    CheckView(t.view);
    const auto [entry, first] =
        owned.manifest.tensors.try_emplace(t.name, ManifestTensor{t.view.global_shape, {}, {}});
    SAMESTEP_CHECK(entry->second.shape == t.view.global_shape);
    if (t.view.elements() == 0) continue;  // more ranks than rows: some hold none
    const std::string suffix = parts_of.at(t.name) > 1 ? "@" + CommaSeparated(t.view.offsets) : "";
    const ManifestPart part{FileName(t.file, group), t.name + suffix, t.view.offsets, t.view.shape,
                            FingerprintOf(t.view)};
    entry->second.fingerprint += part.fingerprint;
    entry->second.parts.push_back(part);
    owned.parts.push_back({part, t.view});
  }
  return owned;
}

Status WriteTensorFiles(const std::string& folder, const std::vector<OwnedPart>& parts) {
  std::map<std::string, std::vector<SafetensorsOutput>> files;
  for (const auto& [part, view] : parts) {
    std::vector<uint64_t> shape;
    for (int i = 0; i < view.shape.rank(); ++i) shape.push_back(static_cast<uint64_t>(view.shape[i]));
    const std::span<const float> values(view.f32(), static_cast<size_t>(view.elements()));
    files[part.file].push_back(
        SafetensorsBytes(part.name, SafetensorsType::kF32, shape, std::as_bytes(values)));
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

// What rank 0 does alone before the others write, and after they have.
Status BeginFolder(const std::string& root, const std::string& partial) {
  SAMESTEP_RETURN_IF_ERROR(MakeFolders(root));
  SAMESTEP_RETURN_IF_ERROR(RemoveTree(partial));
  return MakeFolders(partial);
}

Status FinishFolder(const Manifest& manifest, const std::string& partial, const std::string& folder) {
  SAMESTEP_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(partial, kManifestFile), ManifestText(manifest)));
  if (!FileExists(folder)) return RenameDurably(partial, folder);
  // One of the same step is there (a run that went back to an older checkpoint): they change places at once,
  // so that a crash leaves one of them whole.
  SAMESTEP_RETURN_IF_ERROR(ExchangeDurably(partial, folder));
  return RemoveTree(partial);
}

// The parts of one checkpoint: their files, opened when they are needed, and each verified once.
class PartReader {
 public:
  explicit PartReader(std::string folder) : folder_(std::move(folder)) {}

  // The part's bytes in the mapped file, whose fingerprint is right.
  Result<const std::byte*> Read(const std::string& tensor, const Shape& global, const ManifestPart& part) {
    if (const auto known = verified_.find(&part); known != verified_.end()) return known->second;
    SAMESTEP_ASSIGN_OR_RETURN(const SafetensorsFile* file, Open(tensor, part));
    const SafetensorsTensor* stored = file->Find(part.name);
    if (stored == nullptr) return Damaged(tensor, part, "is missing");
    if (stored->type != SafetensorsType::kF32 || !HasShape(*stored, part.shape)) {
      return Damaged(tensor, part,
                     fmt::format("is {} [{}], expected F32 {}", SafetensorsTypeName(stored->type),
                                 fmt::join(stored->shape, ", "), part.shape.ToString()));
    }
    const Fingerprint found = FingerprintOf(
        ViewOf(const_cast<std::byte*>(stored->bytes.data()), part.shape).Within(global, part.offsets));
    if (!(found == part.fingerprint)) {
      return Damaged(
          tensor, part,
          fmt::format("has fingerprint {}, the manifest says {}", found.hex(), part.fingerprint.hex()));
    }
    return verified_[&part] = stored->bytes.data();
  }

 private:
  static bool HasShape(const SafetensorsTensor& stored, const Shape& shape) {
    Shape found;
    if (stored.shape.size() != static_cast<size_t>(shape.rank())) return false;
    for (const uint64_t extent : stored.shape) found.Append(static_cast<int64_t>(extent));
    return found == shape;
  }

  Result<const SafetensorsFile*> Open(const std::string& tensor, const ManifestPart& part) {
    auto file = files_.find(part.file);
    if (file == files_.end()) {
      Result<SafetensorsFile> opened = SafetensorsFile::Open(JoinPath(folder_, part.file));
      if (!opened.ok()) {
        return Damaged(tensor, part, fmt::format("cannot be read ({})", opened.status().message()));
      }
      file = files_.emplace(part.file, std::move(*opened)).first;
    }
    return &file->second;
  }

  Status Damaged(const std::string& tensor, const ManifestPart& part, const std::string& what) const {
    return DamagedCheckpoint(JoinPath(folder_, part.file),
                             fmt::format("tensor {}, part at {}, {}", tensor, part.offsets.ToString(), what));
  }

  std::string folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<const ManifestPart*, const std::byte*> verified_;
};

// Puts the wanted box together from the parts that overlap with it.
Status LoadTensor(const StateTensor& wanted, const ManifestTensor& entry, PartReader* reader) {
  const Box box = BoxOf(wanted.view);
  int64_t copied = 0;
  for (const ManifestPart& part : entry.parts) {
    const Box stored = BoxOf(part.offsets, part.shape);
    if (Shared(stored, box).elements() == 0) continue;
    SAMESTEP_ASSIGN_OR_RETURN(const std::byte* bytes, reader->Read(wanted.name, entry.shape, part));
    copied += CopyShared(stored, bytes, box, static_cast<std::byte*>(wanted.view.data));
  }
  SAMESTEP_CHECK_EQ(copied, box.elements());  // a manifest's parts tile its tensors
  return {};
}

}  // namespace

Status SaveCheckpoint(Communicator& group, const std::string& root, const CheckpointScalars& scalars,
                      const std::vector<StateTensor>& tensors) {
  const std::string folder = JoinPath(root, FolderName(scalars.step)), partial = folder + kPartial;
  const bool leads = group.rank() == 0;
  const Owned owned = OwnedBy(group, scalars, tensors);
  const std::vector<std::string> all_owned = group.Gather(OwnedText(owned.manifest));
  Manifest manifest;  // rank 0's alone is filled
  const auto begin = [&]() -> Status {
    SAMESTEP_ASSIGN_OR_RETURN(manifest, MergeOwned(all_owned));
    return BeginFolder(root, partial);
  };
  Status status = Agree(group, leads ? begin() : Status());
  if (status.ok()) status = Agree(group, WriteTensorFiles(partial, owned.parts));
  if (status.ok()) status = Agree(group, leads ? FinishFolder(manifest, partial, folder) : Status());
  if (!status.ok()) {
    // All have closed their files. If it cannot be removed, the next save or KeepCheckpoints will.
    if (leads) static_cast<void>(RemoveTree(partial));
    group.Barrier();
  }
  return status;
}

Result<std::vector<std::string>> ListCheckpoints(const std::string& root) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (FileExists(root)) {
    SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(root));
    for (const std::string& name : names) {
      if (!IsCheckpointName(name) || name.size() > 20 ||
          !FileExists(JoinPath(JoinPath(root, name), kManifestFile)))
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

Status LoadTensors(const std::string& folder, const Manifest& manifest,
                   const std::vector<StateTensor>& tensors, Coverage coverage,
                   const std::set<std::string>& elsewhere) {
  std::set<std::string> known = elsewhere;
  PartReader reader(folder);
  for (const StateTensor& t : tensors) {
    CheckView(t.view);
    known.insert(t.name);
    const auto entry = manifest.tensors.find(t.name);
    if (entry == manifest.tensors.end()) {
      return InvalidError("{}: no tensor {}; resume with the recipe of the checkpoint", folder, t.name);
    }
    if (entry->second.shape != t.view.global_shape) {
      return InvalidError(
          "{}: tensor {} has shape {}, the recipe's has {}; resume with the recipe of the checkpoint", folder,
          t.name, entry->second.shape.ToString(), t.view.global_shape.ToString());
    }
    SAMESTEP_RETURN_IF_ERROR(LoadTensor(t, entry->second, &reader));
  }
  for (const auto& [name, entry] : manifest.tensors) {
    if (coverage == Coverage::kAll && !known.contains(name)) {
      return InvalidError(
          "{}: tensor {} is not in this recipe's model; resume with the recipe of the checkpoint", folder,
          name);
    }
  }
  return {};
}

}  // namespace samestep
