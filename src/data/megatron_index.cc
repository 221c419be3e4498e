#include "data/megatron_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

namespace samestep {
namespace {

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr uint64_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 34;
constexpr uint64_t kDigestWhole = uint64_t{1} << 30;
constexpr uint64_t kDigestBlock = uint64_t{1} << 16;

// The arrays are not aligned in general, so each element is copied out.
template <typename T>
T Load(std::span<const std::byte> bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Result<TokenType> ParseTokenType(uint8_t code, const std::string& name) {
  if (code == 6 || code == 7) {
    return InvalidError("{}: byte 17: type code {} is a floating-point type; tokens are whole numbers", name,
                        code);
  }
  if (code == 0 || code > 8) {
    return InvalidError("{}: byte 17: type code {} is unknown; 1 to 8 exist", name, code);
  }
  return static_cast<TokenType>(code);
}

// Offsets must be the running sum of lengths: then every sequence lies in the file and none overlaps.
Status CheckSequences(std::span<const std::byte> index, MegatronIndexHeader& header, uint64_t bin_size,
                      const std::string& name, const std::string& bin_name) {
  const uint64_t token_bytes = static_cast<uint64_t>(TokenBytes(header.type));
  uint64_t end = 0;
  for (int64_t i = 0; i < header.sequences; ++i) {
    const uint64_t length_at = header.lengths_at + 4 * static_cast<uint64_t>(i);
    const uint64_t offset_at = header.offsets_at + 8 * static_cast<uint64_t>(i);
    const int32_t length = Load<int32_t>(index, length_at);
    const int64_t offset = Load<int64_t>(index, offset_at);
    if (length < 0) {
      return InvalidError("{}: byte {}: sequence {} has length {}", name, length_at, i, length);
    }
    if (offset < 0 || static_cast<uint64_t>(offset) != end) {
      return InvalidError(
          "{}: byte {}: sequence {} is said to start at byte {} of the .bin file, but {} bytes "
          "of tokens come before it",
          name, offset_at, i, offset, end);
    }
    end += static_cast<uint64_t>(length) * token_bytes;  // at most 2^34 each, 2^61 sequences cannot exist
    if (end > bin_size) {
      return InvalidError(
          "{}: byte {}: sequence {} ends at byte {}, but {} has {} bytes; copy or pack it again", name,
          length_at, i, end, bin_name, bin_size);
    }
  }
  if (end != bin_size) {
    return InvalidError(
        "{}: {} bytes, but the index accounts for {}; the two files are not a pair, or one was "
        "cut short",
        bin_name, bin_size, end);
  }
  header.tokens = end / token_bytes;
  return {};
}

Status CheckDocuments(std::span<const std::byte> index, const MegatronIndexHeader& header,
                      const std::string& name) {
  int64_t previous = 0;
  for (int64_t i = 0; i < header.document_bounds; ++i) {
    const uint64_t at = header.documents_at + 8 * static_cast<uint64_t>(i);
    const int64_t bound = Load<int64_t>(index, at);
    if (i == 0 && bound != 0) {
      return InvalidError("{}: byte {}: the first document starts at sequence {}, not 0", name, at, bound);
    }
    if (bound < previous || bound > header.sequences) {
      return InvalidError("{}: byte {}: document bound {} is {}, after {}, of {} sequences", name, at, i,
                          bound, previous, header.sequences);
    }
    previous = bound;
  }
  if (previous != header.sequences) {
    return InvalidError("{}: byte {}: the last document ends at sequence {} of {}", name,
                        header.documents_at + 8 * static_cast<uint64_t>(header.document_bounds - 1), previous,
                        header.sequences);
  }
  return {};
}

template <typename T>
int64_t Convert(const std::byte* from, std::span<int32_t> to, int64_t vocab_size) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    const int64_t id = static_cast<int64_t>(value);
    if (id < 0 || id >= vocab_size) return static_cast<int64_t>(i);
    to[i] = static_cast<int32_t>(id);
  }
  return -1;
}

template <typename T>
void Append(std::span<const int32_t> tokens, std::vector<char>& raw) {
  raw.resize(tokens.size() * sizeof(T));
  for (size_t i = 0; i < tokens.size(); ++i) {
    SAMESTEP_CHECK(std::in_range<T>(tokens[i]));
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(raw.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// A file that makes room for a new one, and comes back unless Release is called.
class SetAside {
 public:
  static Result<SetAside> Move(const std::string& path) {
    SetAside aside;
    if (!FileExists(path)) return aside;
    SAMESTEP_RETURN_IF_ERROR(RenameDurably(path, path + ".earlier"));
    aside.path_ = path;
    return aside;
  }
  SetAside(SetAside&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SetAside& operator=(SetAside&&) = delete;
  ~SetAside() {
    if (!path_.empty()) (void)RenameDurably(path_ + ".earlier", path_);
  }
  Status Release() {
    const std::string path = std::exchange(path_, {});
    return path.empty() ? Status() : RemoveTree(path + ".earlier");
  }

 private:
  SetAside() = default;
  std::string path_;
};

}  // namespace

int TokenBytes(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  SAMESTEP_CHECK(false);
}

std::string_view TokenTypeName(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "u8";
    case TokenType::kI8:
      return "i8";
    case TokenType::kI16:
      return "i16";
    case TokenType::kI32:
      return "i32";
    case TokenType::kI64:
      return "i64";
    case TokenType::kU16:
      return "u16";
  }
  SAMESTEP_CHECK(false);
}

TokenType TokenTypeFor(int64_t vocab_size) { return vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32; }

Result<MegatronIndexHeader> ParseMegatronIndex(std::span<const std::byte> index, uint64_t bin_size,
                                               const std::string& name, const std::string& bin_name) {
  if (index.size() < kHeaderBytes) {
    return InvalidError("{}: {} bytes; the header alone has {}", name, index.size(), kHeaderBytes);
  }
  if (std::memcmp(index.data(), kMagic, sizeof kMagic) != 0) {
    return InvalidError("{}: byte 0: not a Megatron index (it would start with MMIDIDX and two zero bytes)",
                        name);
  }
  const uint64_t version = Load<uint64_t>(index, 9);
  if (version != kVersion) {
    return InvalidError("{}: byte 9: version {}; only version {} is known", name, version, kVersion);
  }
  MegatronIndexHeader header;
  SAMESTEP_ASSIGN_OR_RETURN(header.type, ParseTokenType(Load<uint8_t>(index, 17), name));
  const uint64_t sequences = Load<uint64_t>(index, 18);
  const uint64_t bounds = Load<uint64_t>(index, 26);
  const uint64_t rest = index.size() - kHeaderBytes;
  if (sequences > rest / 12) {
    return InvalidError("{}: byte 18: {} sequences need 12 bytes each, but {} bytes follow the header", name,
                        sequences, rest);
  }
  if (bounds == 0) {
    return InvalidError("{}: byte 26: no document bounds; a file without documents has one", name);
  }
  if (bounds > (rest - 12 * sequences) / 8) {
    return InvalidError("{}: byte 26: {} document bounds need 8 bytes each, but {} bytes are left for them",
                        name, bounds, rest - 12 * sequences);
  }
  const uint64_t end = kHeaderBytes + 12 * sequences + 8 * bounds;
  if (index.size() == end + sequences && sequences > 0) {
    return InvalidError("{}: byte {}: one mode per sequence follows; multimodal data sets are not supported",
                        name, end);
  }
  if (index.size() != end) {
    return InvalidError("{}: byte {}: the index ends here, but the file has {} bytes more", name, end,
                        index.size() - end);
  }
  header.sequences = static_cast<int64_t>(sequences);
  header.document_bounds = static_cast<int64_t>(bounds);
  header.lengths_at = kHeaderBytes;
  header.offsets_at = kHeaderBytes + 4 * sequences;
  header.documents_at = kHeaderBytes + 12 * sequences;
  SAMESTEP_RETURN_IF_ERROR(CheckSequences(index, header, bin_size, name, bin_name));
  SAMESTEP_RETURN_IF_ERROR(CheckDocuments(index, header, name));
  return header;
}

MegatronDataset::MegatronDataset(std::string prefix, MappedFile index, MappedFile bin,
                                 MegatronIndexHeader header)
    : prefix_(std::move(prefix)), index_(std::move(index)), bin_(std::move(bin)), header_(header) {}

Result<MegatronDataset> MegatronDataset::Open(const std::string& prefix) {
  if ((prefix.ends_with(".bin") || prefix.ends_with(".idx")) && !FileExists(prefix + ".idx")) {
    return UsageError("{}: name the data set without .bin or .idx: {}", prefix,
                      prefix.substr(0, prefix.size() - 4));
  }
  if (!FileExists(prefix + ".idx") && FileExists(prefix + "_text_document.idx")) {
    return NotFoundError(
        "{0}.idx: it does not exist, but {0}_text_document.idx does; name the data set {0}_text_document",
        prefix);
  }
  if (!FileExists(prefix + ".idx")) {
    return NotFoundError(
        "{}.idx: it does not exist; make a data set with `samestep data pack`, and name it "
        "without .bin or .idx",
        prefix);
  }
  SAMESTEP_ASSIGN_OR_RETURN(MappedFile index, MappedFile::Open(prefix + ".idx"));
  SAMESTEP_ASSIGN_OR_RETURN(MappedFile bin, MappedFile::Open(prefix + ".bin"));
  SAMESTEP_ASSIGN_OR_RETURN(MegatronIndexHeader header,
                            ParseMegatronIndex(index.bytes(), bin.bytes().size(), index.path(), bin.path()));
  return MegatronDataset(prefix, std::move(index), std::move(bin), header);
}

int32_t MegatronDataset::length(int64_t sequence) const {
  SAMESTEP_CHECK(sequence >= 0 && sequence < header_.sequences);
  return Load<int32_t>(index_.bytes(), header_.lengths_at + 4 * static_cast<uint64_t>(sequence));
}

int64_t MegatronDataset::document_start(int64_t document) const {
  SAMESTEP_CHECK(document >= 0 && document < header_.document_bounds);
  return Load<int64_t>(index_.bytes(), header_.documents_at + 8 * static_cast<uint64_t>(document));
}

Status MegatronDataset::Read(int64_t sequence, int64_t first, std::span<int32_t> tokens,
                             int64_t vocab_size) const {
  SAMESTEP_CHECK(first >= 0 && first + static_cast<int64_t>(tokens.size()) <= length(sequence));
  const uint64_t token_bytes = static_cast<uint64_t>(TokenBytes(header_.type));
  const uint64_t start = static_cast<uint64_t>(
      Load<int64_t>(index_.bytes(), header_.offsets_at + 8 * static_cast<uint64_t>(sequence)));
  const uint64_t at = start + static_cast<uint64_t>(first) * token_bytes;
  // The index was checked when it was opened; a file that is written over while it is mapped is not our data.
  SAMESTEP_CHECK_LE(at + tokens.size() * token_bytes, bin_.bytes().size());
  const std::byte* from = bin_.bytes().data() + at;
  int64_t bad = -1;
  switch (header_.type) {
    case TokenType::kU8:
      bad = Convert<uint8_t>(from, tokens, vocab_size);
      break;
    case TokenType::kI8:
      bad = Convert<int8_t>(from, tokens, vocab_size);
      break;
    case TokenType::kI16:
      bad = Convert<int16_t>(from, tokens, vocab_size);
      break;
    case TokenType::kI32:
      bad = Convert<int32_t>(from, tokens, vocab_size);
      break;
    case TokenType::kI64:
      bad = Convert<int64_t>(from, tokens, vocab_size);
      break;
    case TokenType::kU16:
      bad = Convert<uint16_t>(from, tokens, vocab_size);
      break;
  }
  if (bad < 0) return {};
  return InvalidError(
      "{}: byte {}: the token there (sequence {}, token {}) is not below the model's vocabulary of "
      "{}; the data set was packed with another tokenizer: pack it again with the recipe's, or "
      "set model.vocab to that of the data",
      bin_.path(), at + static_cast<uint64_t>(bad) * token_bytes, sequence, first + bad, vocab_size);
}

Digest MegatronDataset::Digest() const {
  DigestBuilder hasher;
  const std::string_view bin = TextOf(bin_.bytes());
  hasher.Add(TextOf(index_.bytes()));
  hasher.Add(RecordWriter().U64(bin.size()).bytes());
  if (bin.size() <= kDigestWhole) {
    hasher.Add(bin);
    return hasher.Finish();
  }
  const uint64_t blocks = kDigestWhole / kDigestBlock;
  const uint64_t distance = (bin.size() - kDigestBlock) / (blocks - 1);
  for (uint64_t i = 0; i < blocks; ++i) hasher.Add(bin.substr(i * distance, kDigestBlock));
  return hasher.Finish();
}

MegatronWriter::MegatronWriter(std::string prefix, TokenType type, FileWriter bin)
    : prefix_(std::move(prefix)), type_(type), bin_(std::move(bin)), documents_{0} {}

Result<MegatronWriter> MegatronWriter::Create(const std::string& prefix, TokenType type) {
  SAMESTEP_ASSIGN_OR_RETURN(FileWriter bin, FileWriter::Create(prefix + ".bin"));
  return MegatronWriter(prefix, type, std::move(bin));
}

Status MegatronWriter::AddSequence(std::span<const int32_t> tokens) {
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return InvalidError(
        "{}: a document of {} tokens; the format holds up to 2147483647 in one; split the text into "
        "more documents",
        prefix_, tokens.size());
  }
  switch (type_) {
    case TokenType::kU8:
      Append<uint8_t>(tokens, raw_);
      break;
    case TokenType::kI8:
      Append<int8_t>(tokens, raw_);
      break;
    case TokenType::kI16:
      Append<int16_t>(tokens, raw_);
      break;
    case TokenType::kI32:
      Append<int32_t>(tokens, raw_);
      break;
    case TokenType::kI64:
      Append<int64_t>(tokens, raw_);
      break;
    case TokenType::kU16:
      Append<uint16_t>(tokens, raw_);
      break;
  }
  SAMESTEP_RETURN_IF_ERROR(bin_.Write(raw_.data(), raw_.size()));
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  tokens_ += static_cast<int64_t>(tokens.size());
  return {};
}

void MegatronWriter::EndDocument() { documents_.push_back(sequences()); }

Status MegatronWriter::Commit() {
  SAMESTEP_CHECK_EQ(documents_.back(), sequences());
  SAMESTEP_ASSIGN_OR_RETURN(FileWriter index, FileWriter::Create(prefix_ + ".idx"));
  const uint64_t counts[2] = {lengths_.size(), documents_.size()};
  const uint8_t code = static_cast<uint8_t>(type_);
  SAMESTEP_RETURN_IF_ERROR(index.Write(kMagic, sizeof kMagic));
  SAMESTEP_RETURN_IF_ERROR(index.Write(&kVersion, sizeof kVersion));
  SAMESTEP_RETURN_IF_ERROR(index.Write(&code, sizeof code));
  SAMESTEP_RETURN_IF_ERROR(index.Write(counts, sizeof counts));
  SAMESTEP_RETURN_IF_ERROR(index.Write(lengths_.data(), lengths_.size() * sizeof lengths_[0]));
  int64_t offset = 0;
  for (const int32_t length : lengths_) {
    SAMESTEP_RETURN_IF_ERROR(index.Write(&offset, sizeof offset));
    offset += int64_t{length} * TokenBytes(type_);
  }
  SAMESTEP_RETURN_IF_ERROR(index.Write(documents_.data(), documents_.size() * sizeof documents_[0]));
  // The index of an earlier pair must not stand beside the new tokens if we are stopped in between, and the
  // pair must be there again if we fail.
  SAMESTEP_ASSIGN_OR_RETURN(SetAside earlier_index, SetAside::Move(prefix_ + ".idx"));
  SAMESTEP_ASSIGN_OR_RETURN(SetAside earlier_bin, SetAside::Move(prefix_ + ".bin"));
  SAMESTEP_RETURN_IF_ERROR(bin_.Commit());
  SAMESTEP_RETURN_IF_ERROR(index.Commit());
  SAMESTEP_RETURN_IF_ERROR(earlier_bin.Release());
  return earlier_index.Release();
}

}  // namespace samestep
