#include "data/bpe_model.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.h"
#include "data/unicode.h"

namespace samestep {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr size_t kCacheSlots = size_t{1} << 17;
constexpr size_t kCacheEntries = kCacheSlots / 2;
constexpr size_t kCachedPiece = 64;  // longer pieces seldom come back

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t Scatter(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return key ^ key >> 32;
}

// A queue entry: rank above position, so that the smallest is the one to merge next.
uint64_t QueueKey(uint32_t rank, int32_t position) {
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(position);
}

}  // namespace

const std::array<std::string, 256>& ByteAliases() {
  static const std::array<std::string, 256>* aliases = [] {
    auto* a = new std::array<std::string, 256>;
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      AppendUtf8(printable ? b : next++, (*a)[b]);
    }
    return a;
  }();
  return *aliases;
}

bool FromByteAliases(std::string_view text, std::string& bytes) {
  static const std::array<int16_t, 0x144>* byte_of = [] {
    auto* table = new std::array<int16_t, 0x144>;
    table->fill(-1);
    for (int b = 0; b < 256; ++b) (*table)[DecodeUtf8(ByteAliases()[b], 0)] = static_cast<int16_t>(b);
    return table;
  }();
  bytes.clear();
  for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) {
    const char32_t c = DecodeUtf8(text, at);
    if (c >= byte_of->size() || (*byte_of)[c] < 0) return false;
    bytes.push_back(static_cast<char>((*byte_of)[c]));
  }
  return true;
}

BpeWorkspace::BpeWorkspace() : cache_(kCacheSlots) {}

Result<BpeModel> BpeModel::Make(BpeParts parts) {
  BpeModel model;
  model.parts_ = std::move(parts);
  if (!model.parts_.unknown.empty()) {
    model.unknown_ = model.Find(model.parts_.unknown);
    if (model.unknown_ < 0) {
      return InvalidError("the unknown token \"{}\" is not in the vocabulary", model.parts_.unknown);
    }
  }
  for (int b = 0; b < 256; ++b) {
    model.byte_symbols_[b] =
        model.parts_.byte_level ? model.Find(ByteAliases()[b]) : model.Find(fmt::format("<0x{:02X}>", b));
  }
  // Hugging Face would then look for tokens of the alias's own bytes; nobody can want that.
  if (model.parts_.byte_level && model.parts_.byte_fallback &&
      std::count(model.byte_symbols_.begin(), model.byte_symbols_.end(), -1) > 0) {
    return InvalidError("byte_fallback in a byte-level vocabulary that lacks some bytes is not supported");
  }
  SAMESTEP_RETURN_IF_ERROR(model.AddMerges());
  return model;
}

Status BpeModel::AddMerges() {
  size_t slots = 16;
  while (slots < 2 * parts_.merges.size()) slots *= 2;
  slots_.resize(slots);
  slot_mask_ = slots - 1;
  for (size_t rank = 0; rank < parts_.merges.size(); ++rank) {
    const auto& [left, right] = parts_.merges[rank];
    const int32_t ids[3] = {Find(left), Find(right), Find(left + right)};
    for (int i = 0; i < 3; ++i) {
      if (ids[i] < 0) {
        return InvalidError("merge {} of \"{}\" and \"{}\": \"{}\" is not in the vocabulary", rank, left,
                            right,
                            i == 0   ? left
                            : i == 1 ? right
                                     : left + right);
      }
    }
    merged_.push_back(ids[2]);
    const uint64_t key = PairKey(ids[0], ids[1]);
    uint64_t slot = Scatter(key) & slot_mask_;
    while (slots_[slot].pair != key && slots_[slot].pair != ~uint64_t{0}) slot = (slot + 1) & slot_mask_;
    slots_[slot] = {key, static_cast<uint32_t>(rank)};  // of a pair that is listed twice, the last counts
  }
  parts_.merges.clear();
  parts_.merges.shrink_to_fit();
  return {};
}

int32_t BpeModel::Find(std::string_view token) const {
  const auto at = parts_.vocab.find(std::string(token));
  return at == parts_.vocab.end() ? -1 : at->second;
}

uint32_t BpeModel::Rank(int32_t left, int32_t right) const {
  const uint64_t key = PairKey(left, right);
  for (uint64_t slot = Scatter(key) & slot_mask_;; slot = (slot + 1) & slot_mask_) {
    if (slots_[slot].pair == key) return slots_[slot].rank;
    if (slots_[slot].pair == ~uint64_t{0}) return kNoRank;
  }
}

void BpeModel::AddSymbols(std::string_view piece, BpeWorkspace& workspace) const {
  std::vector<BpeWorkspace::Symbol>& symbols = workspace.symbols_;
  symbols.clear();
  int32_t unknown_bytes = 0;  // of an unknown token that is still to be added
  const auto add = [&](int32_t id, int32_t bytes) {
    const int32_t position = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, bytes, position - 1, position + 1});
  };
  const auto add_unknown = [&] {
    if (unknown_bytes > 0) add(unknown_, unknown_bytes);
    unknown_bytes = 0;
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t length = parts_.byte_level ? 1 : Utf8Length(piece[at]);
    const std::string_view character = piece.substr(at, length);
    at += length;
    const int32_t id =
        parts_.byte_level ? byte_symbols_[static_cast<uint8_t>(character[0])] : Find(character);
    if (id >= 0) {
      add_unknown();
      add(id, static_cast<int32_t>(length));
      continue;
    }
    if (parts_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char c) {
          return byte_symbols_[static_cast<uint8_t>(c)] >= 0;
        })) {
      // As Hugging Face has it, a pending unknown token comes after these.
      for (const char c : character) add(byte_symbols_[static_cast<uint8_t>(c)], 1);
      continue;
    }
    if (unknown_ < 0) continue;
    if (!parts_.fuse_unknown) add_unknown();
    unknown_bytes += static_cast<int32_t>(length);
  }
  add_unknown();
  if (!symbols.empty()) symbols.back().next = -1;
}

void BpeModel::Merge(BpeWorkspace& workspace) const {
  std::vector<BpeWorkspace::Symbol>& symbols = workspace.symbols_;
  std::vector<uint64_t>& queue = workspace.queue_;
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    const uint32_t rank = Rank(symbols[i].id, symbols[i + 1].id);
    if (rank != kNoRank) queue.push_back(QueueKey(rank, static_cast<int32_t>(i)));
  }
  const std::greater<> order;
  std::make_heap(queue.begin(), queue.end(), order);
  const auto push = [&](int32_t position) {
    const uint32_t rank = Rank(symbols[position].id, symbols[symbols[position].next].id);
    if (rank == kNoRank) return;
    queue.push_back(QueueKey(rank, position));
    std::push_heap(queue.begin(), queue.end(), order);
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), order);
    const uint32_t rank = static_cast<uint32_t>(queue.back() >> 32);
    const int32_t position = static_cast<int32_t>(queue.back() & 0xFFFFFFFFu);
    queue.pop_back();
    BpeWorkspace::Symbol& left = symbols[position];
    if (left.bytes == 0 || left.next < 0) continue;
    BpeWorkspace::Symbol& right = symbols[left.next];
    // The entry may be of a pair that is gone. Like Hugging Face, ask only whether the pair that is there now
    // makes the same token.
    const uint32_t current = Rank(left.id, right.id);
    if (current == kNoRank || merged_[current] != merged_[rank]) continue;
    left.id = merged_[rank];
    left.bytes += right.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) symbols[left.next].previous = position;
    if (left.previous >= 0) push(left.previous);
    if (left.next >= 0) push(position);
  }
}

void BpeModel::EncodeUncached(std::string_view piece, BpeWorkspace& workspace,
                              std::vector<int32_t>& ids) const {
  if (parts_.ignore_merges) {
    std::string& token = workspace.alias_;
    token.clear();
    if (parts_.byte_level) {
      for (const char c : piece) token += ByteAliases()[static_cast<uint8_t>(c)];
    } else {
      token = piece;
    }
    if (const int32_t id = Find(token); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  AddSymbols(piece, workspace);
  Merge(workspace);
  for (const BpeWorkspace::Symbol& symbol : workspace.symbols_) {
    if (symbol.bytes > 0) ids.push_back(symbol.id);
  }
}

void BpeModel::Encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const {
  SAMESTEP_CHECK(piece.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  if (piece.empty()) return;
  if (piece.size() > kCachedPiece) {
    EncodeUncached(piece, workspace, ids);
    return;
  }
  const uint64_t hash = XXH3_64bits(piece.data(), piece.size());
  size_t slot = hash & (kCacheSlots - 1);
  for (; workspace.cache_[slot].text_size != 0; slot = (slot + 1) & (kCacheSlots - 1)) {
    const BpeWorkspace::CacheEntry& entry = workspace.cache_[slot];
    if (entry.hash != hash || entry.text_size != piece.size() ||
        std::memcmp(workspace.cached_text_.data() + entry.text, piece.data(), piece.size()) != 0) {
      continue;
    }
    const int32_t* first = workspace.cached_ids_.data() + entry.ids;
    ids.insert(ids.end(), first, first + entry.id_count);
    return;
  }
  const size_t before = ids.size();
  EncodeUncached(piece, workspace, ids);
  if (workspace.cached_ == kCacheEntries) return;  // full: what comes often is in it by now
  ++workspace.cached_;
  workspace.cache_[slot] = {
      hash, static_cast<uint32_t>(workspace.cached_text_.size()), static_cast<uint32_t>(piece.size()),
      static_cast<uint32_t>(workspace.cached_ids_.size()), static_cast<uint32_t>(ids.size() - before)};
  workspace.cached_text_ += piece;
  workspace.cached_ids_.insert(workspace.cached_ids_.end(), ids.begin() + static_cast<ptrdiff_t>(before),
                               ids.end());
}

}  // namespace samestep
