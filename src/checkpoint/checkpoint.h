// checkpoint.h: everything that shapes the trajectory, named and fingerprinted, in a folder.
//
//   SAMESTEP_RETURN_IF_ERROR(SaveCheckpoint(root, state));                 // root/step-00000100, atomically
//   SAMESTEP_ASSIGN_OR_RETURN(std::string folder, LatestCheckpoint(root));
//   SAMESTEP_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
//   SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, manifest, tensors));      // verifies every fingerprint
//
// The folder holds safetensors files and manifest.json (docs/formats/checkpoint.md). It is written under
// another name, synced, and renamed: a checkpoint exists whole or not at all.
//
// Determinism: bytes depend on the state alone: no times, no host names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fingerprint/digest.h"
#include "tensor/tensor.h"

namespace samestep {

// A tensor of the state: f32, contiguous. Loading writes into the view.
struct StateTensor {
  std::string name;  // "model.norm.weight", "first_moment.model.norm.weight"
  std::string file;  // "weights.safetensors"
  TensorView view;
};

// State that is no tensor. Each is covered by the manifest's own digest.
struct CheckpointScalars {
  int64_t step = 0;
  int64_t consumed_samples = 0;
  Digest trajectory;
  std::string recipe_digest;
  std::string recipe;       // canonical text
  std::string data_digest;  // of the contents of the training data; empty: none
};

struct ManifestTensor {
  std::string file;
  Shape shape;
  Fingerprint fingerprint;
};

struct Manifest {
  CheckpointScalars scalars;
  std::map<std::string, ManifestTensor> tensors;
};

// Writes root/step-NNNNNNNN. Replaces one of the same step.
Status SaveCheckpoint(const std::string& root, const CheckpointScalars& scalars,
                      const std::vector<StateTensor>& tensors);
// Folders of whole checkpoints in root, oldest first.
Result<std::vector<std::string>> ListCheckpoints(const std::string& root);
// The newest. kNotFound if there is none.
Result<std::string> LatestCheckpoint(const std::string& root);
// Removes all but the newest `count`, and what an interrupted save left.
Status KeepCheckpoints(const std::string& root, int64_t count);

// Removes those after `step`: a run that goes back to an older one makes them again.
Status RemoveCheckpointsAfter(const std::string& root, int64_t step);

Result<Manifest> ReadManifest(const std::string& folder);
// Every tensor must be in the manifest with its shape, and, to continue a run, the other way round (kAll).
// Every fingerprint is verified.
enum class Coverage { kAll, kGiven };
Status LoadTensors(const std::string& folder, const Manifest& manifest,
                   const std::vector<StateTensor>& tensors, Coverage coverage = Coverage::kAll);

}  // namespace samestep
