// checkpoint.h: everything that shapes the trajectory, named and fingerprinted, in a folder.
//
//   SAMESTEP_RETURN_IF_ERROR(SaveCheckpoint(group, root, scalars, tensors));   // root/step-00000100,
//   atomically SAMESTEP_ASSIGN_OR_RETURN(std::string folder, LatestCheckpoint(root));
//   SAMESTEP_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
//   SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, manifest, tensors));      // verifies every fingerprint
//
// The folder holds safetensors files and manifest.json (docs/formats/checkpoint.md). It holds logical tensors
// in parts: each rank writes those that it owns, and a load puts any box of a tensor together from the parts
// that overlap with it, so that what was saved in one layout resumes in any other. It is written under
// another name, synced, and renamed: a checkpoint exists whole or not at all.
//
// Determinism: bytes depend on the state and on who owned which part of it alone: no times, no host names.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace samestep {

// A box of a logical tensor of the state (or all of it): f32, of one or two dimensions, contiguous; the view
// says where it lies (TensorView::Within). Loading writes into the view.
struct StateTensor {
  std::string name;  // "model.norm.weight", "first_moment.model.norm.weight"
  std::string file;  // kind of file that it goes to: "weights", "optimizer"
  TensorView view;
};

// Writes root/step-NNNNNNNN. Replaces one of the same step. Every rank calls it with the same scalars and
// with the parts that it owns: together they must hold each element of each tensor once. All get the same
// status; if it is an error, checkpoints are as before.
Status SaveCheckpoint(Communicator& group, const std::string& root, const CheckpointScalars& scalars,
                      const std::vector<StateTensor>& tensors);
// Folders of whole checkpoints in root, oldest first.
Result<std::vector<std::string>> ListCheckpoints(const std::string& root);
// The newest. kNotFound if there is none.
Result<std::string> LatestCheckpoint(const std::string& root);
// Removes all but the newest `count`, and what an interrupted save left.
Status KeepCheckpoints(const std::string& root, int64_t count);

// Removes those after `step`: a run that goes back to an older one makes them again.
Status RemoveCheckpointsAfter(const std::string& root, int64_t step);

// Each rank for itself, with the boxes that it wants. Every tensor must be in the manifest with its logical
// shape, and, to continue a run, the other way round (kAll): each tensor of the manifest is wanted here, or
// named in `elsewhere`, as other ranks' are. The fingerprint of every part that is touched is verified.
// Statuses may differ between ranks: Agree on them.
enum class Coverage { kAll, kGiven };
Status LoadTensors(const std::string& folder, const Manifest& manifest,
                   const std::vector<StateTensor>& tensors, Coverage coverage = Coverage::kAll,
                   const std::set<std::string>& elsewhere = {});

}  // namespace samestep
