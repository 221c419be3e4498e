// manifest.h: what a checkpoint's manifest.json says: the scalars, and where the parts of each tensor are.
//
//   SAMESTEP_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
//   for (const ManifestPart& part : manifest.tensors.at("model.norm.weight").parts) ...
//
// A manifest that is read has parts that cover each tensor exactly once, and whose fingerprints add up to
// the tensor's; anything else is refused.
//
// Determinism: the text depends on the contents alone; tensors are sorted by name, parts by position.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "fingerprint/digest.h"
#include "tensor/shape.h"

namespace samestep {

inline constexpr const char* kManifestFile = "manifest.json";

// State that is no tensor. Each is covered by the manifest's own digest.
struct CheckpointScalars {
  int64_t step = 0;
  int64_t consumed_samples = 0;
  Digest trajectory;
  std::string recipe_digest;
  std::string recipe;       // canonical text
  std::string data_digest;  // of the contents of the training data; empty: none
};

// A box of a logical tensor, stored contiguously.
struct ManifestPart {
  std::string file;  // in the checkpoint's folder
  std::string name;  // in that file
  Shape offsets, shape;
  Fingerprint fingerprint;  // what it contributes to the whole's, at its position
};

struct ManifestTensor {
  Shape shape;
  Fingerprint fingerprint;
  std::vector<ManifestPart> parts;
};

using ManifestTensors = std::map<std::string, ManifestTensor>;

struct Manifest {
  CheckpointScalars scalars;
  ManifestTensors tensors;
};

Result<Manifest> ReadManifest(const std::string& folder);
// The whole file. Parts must tile their tensors.
std::string ManifestText(const Manifest& manifest);

// What one rank holds, as text for the others: tensors whose parts and fingerprint are not yet complete.
std::string OwnedText(const Manifest& owned);
// All ranks' together, in their order. Refuses ranks whose scalars differ, and parts that do not tile.
Result<Manifest> MergeOwned(const std::vector<std::string>& texts);

// "the checkpoint is damaged", and what to do.
Status DamagedCheckpoint(const std::string& path, const std::string& what);

}  // namespace samestep
