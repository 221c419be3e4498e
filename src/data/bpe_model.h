// bpe_model.h: byte pair encoding: which tokens a piece of text is merged to.
//
//   SAMESTEP_ASSIGN_OR_RETURN(BpeModel model, BpeModel::Make(std::move(parts)));
//   BpeWorkspace workspace;
//   model.Encode(" beginning", workspace, ids);
//
// The pair with the lowest rank is merged first, the leftmost of equals. A queue finds it, so that a piece of
// n symbols takes n log n steps even if it is a megabyte without a space.
//
// Determinism: ids are a function of the piece and the model; the workspace's cache changes speed only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"

namespace samestep {

// What GPT-2 writes for each byte in its vocabulary: printable characters stand for themselves.
const std::array<std::string, 256>& ByteAliases();
// The bytes that a string of aliases stands for; false if it has other characters.
bool FromByteAliases(std::string_view text, std::string& bytes);

struct BpeParts {
  std::unordered_map<std::string, int32_t> vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  bool byte_level = false;     // pieces are bytes, the vocabulary is written in byte aliases
  bool byte_fallback = false;  // an unknown character becomes tokens <0x00> to <0xFF>
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  std::string unknown;         // token for what is not in the vocabulary; empty: such characters are dropped
};

class BpeModel;

// Memory that encoding needs, and a cache of pieces. One for each thread.
class BpeWorkspace {
 public:
  BpeWorkspace();

 private:
  friend class BpeModel;
  struct Symbol {
    int32_t id;
    int32_t bytes;  // 0: merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  struct CacheEntry {
    uint64_t hash = 0;
    uint32_t text = 0;  // in cached_text_
    uint32_t text_size = 0;
    uint32_t ids = 0;  // in cached_ids_
    uint32_t id_count = 0;
  };
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;
  std::vector<CacheEntry> cache_;
  size_t cached_ = 0;
  std::string cached_text_;
  std::vector<int32_t> cached_ids_;
  std::string alias_;
};

class BpeModel {
 public:
  BpeModel() = default;  // to be assigned to
  // kInvalid if a merge is of or to a token that is not in the vocabulary.
  static Result<BpeModel> Make(BpeParts parts);

  // Appends the ids of one piece (raw bytes if byte_level, valid UTF-8 else), of less than 2^31 bytes.
  void Encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const;

  int32_t Find(std::string_view token) const;  // -1: not in the vocabulary
  const std::unordered_map<std::string, int32_t>& vocab() const { return parts_.vocab; }
  bool byte_level() const { return parts_.byte_level; }

 private:
  struct Slot {
    uint64_t pair = ~uint64_t{0};
    uint32_t rank = 0;
  };
  Status AddMerges();
  uint32_t Rank(int32_t left, int32_t right) const;  // kNoRank: the two do not merge
  void AddSymbols(std::string_view piece, BpeWorkspace& workspace) const;
  void Merge(BpeWorkspace& workspace) const;
  void EncodeUncached(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const;

  BpeParts parts_;
  int32_t unknown_ = -1;
  std::array<int32_t, 256> byte_symbols_{};  // byte level: the token of each byte; else that of <0xXX>
  std::vector<Slot> slots_;                  // hash table from pair to rank
  uint64_t slot_mask_ = 0;
  std::vector<int32_t> merged_;  // token that the merge of a rank makes
};

}  // namespace samestep
