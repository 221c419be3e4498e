// megatron_index.h: Megatron's `.bin`/`.idx` pairs: token sequences, grouped into documents.
//
//   SAMESTEP_ASSIGN_OR_RETURN(MegatronDataset data, MegatronDataset::Open("corpus_text_document"));
//   SAMESTEP_RETURN_IF_ERROR(data.Read(sequence, first_token, tokens));    // tokens: std::span<int32_t>
//
//   SAMESTEP_ASSIGN_OR_RETURN(MegatronWriter writer, MegatronWriter::Create(prefix, TokenType::kU16));
//   SAMESTEP_RETURN_IF_ERROR(writer.AddSequence(tokens));
//   writer.EndDocument();
//   SAMESTEP_RETURN_IF_ERROR(writer.Commit());
//
// The format is that of Megatron Core's indexed_dataset.py. Megatron checks only magic and version; this
// reader checks every field against the sizes of both files before it believes it, and says where it failed.
//
// The .idx file, little-endian and packed:
//   0   9 bytes  "MMIDIDX\0\0"
//   9   u64      version, 1
//   17  u8       type of the tokens (TokenType)
//   18  u64      S, the number of sequences
//   26  u64      D, the number of document bounds: documents + 1
//   34  i32[S]   tokens in each sequence
//       i64[S]   byte offset of each sequence in the .bin file
//       i64[D]   sequence at which each document starts; the first 0, the last S
//
// Determinism: a function of the two files, or of the calls made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "fingerprint/digest.h"

namespace samestep {

enum class TokenType : uint8_t { kU8 = 1, kI8 = 2, kI16 = 3, kI32 = 4, kI64 = 5, kU16 = 8 };

int TokenBytes(TokenType type);
std::string_view TokenTypeName(TokenType type);
// Megatron's rule for files that it writes: u16 below 65,500 tokens, else i32.
TokenType TokenTypeFor(int64_t vocab_size);

// Where things lie in an .idx file.
struct MegatronIndexHeader {
  TokenType type{};
  int64_t sequences = 0;
  int64_t document_bounds = 0;
  uint64_t lengths_at = 0;
  uint64_t offsets_at = 0;
  uint64_t documents_at = 0;
  uint64_t tokens = 0;
};

// Checks a whole .idx file against itself and against the size of its .bin file. `name` and `bin_name` are
// what messages call them.
Result<MegatronIndexHeader> ParseMegatronIndex(std::span<const std::byte> index, uint64_t bin_size,
                                               const std::string& name, const std::string& bin_name);

class MegatronDataset {
 public:
  // `prefix` is the path without ".bin" and ".idx".
  static Result<MegatronDataset> Open(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return header_.type; }
  int64_t sequences() const { return header_.sequences; }
  int64_t documents() const { return header_.document_bounds - 1; }
  int64_t tokens() const { return static_cast<int64_t>(header_.tokens); }
  int32_t length(int64_t sequence) const;
  int64_t document_start(int64_t document) const;  // up to documents()

  // Reads tokens[0 .. size) of a sequence from `first` on, which must lie in it. An id that is negative or
  // not below `vocab_size` is refused, with its place in the .bin file.
  Status Read(int64_t sequence, int64_t first, std::span<int32_t> tokens, int64_t vocab_size) const;

  // Identifies the contents: all of the .idx file, the size of the .bin file, and its bytes: all of them up
  // to 1 GiB, of a larger file 16,384 blocks of 64 KiB at even distances.
  samestep::Digest Digest() const;

 private:
  MegatronDataset(std::string prefix, MappedFile index, MappedFile bin, MegatronIndexHeader header);
  std::string prefix_;
  MappedFile index_;
  MappedFile bin_;
  MegatronIndexHeader header_;
};

// Writes a pair. The files take their names in Commit, the .idx file last: as long as it is not there, no
// reader takes the pair for complete.
class MegatronWriter {
 public:
  static Result<MegatronWriter> Create(const std::string& prefix, TokenType type);
  // Tokens must fit the type.
  Status AddSequence(std::span<const int32_t> tokens);
  // The sequences since the last call are one document.
  void EndDocument();
  Status Commit();

  int64_t sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t documents() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t tokens() const { return tokens_; }

 private:
  MegatronWriter(std::string prefix, TokenType type, FileWriter bin);
  std::string prefix_;
  TokenType type_;
  FileWriter bin_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_;
  std::vector<char> raw_;
  int64_t tokens_ = 0;
};

}  // namespace samestep
