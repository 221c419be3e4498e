#include "trace/stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "trace/bytes.h"

namespace samestep {
namespace {

constexpr std::string_view kMagic("samestep.trace\0\1", 16);
constexpr std::string_view kSideMagic("samestep.rollup\1", 16);
constexpr size_t kSideHeader = 32;            // magic, digest of the trace's header
constexpr uint32_t kBlockMagic = 0x4B425353;  // "SSBK"
constexpr uint64_t kBlockHeader = 32;
constexpr uint64_t kMaxRaw = uint64_t{64} << 20;    // of one block; the recorder cuts long before
constexpr uint64_t kMaxEvents = uint64_t{1} << 22;  // of a segment
constexpr uint64_t kMaxSlots = uint64_t{1} << 23;
constexpr uint64_t kMaxDefinitions = uint64_t{1} << 22;
constexpr int kCompression = 3;

std::string Compress(const std::string& raw) {
  std::string stored(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress(stored.data(), stored.size(), raw.data(), raw.size(), kCompression);
  SAMESTEP_CHECK(!ZSTD_isError(size));
  stored.resize(size);
  return stored;
}

uint64_t Checksum(std::string_view header, std::string_view payload) {
  const uint64_t of_payload = XXH3_64bits(payload.data(), payload.size());
  return XXH3_64bits_withSeed(header.data(), header.size(), of_payload);
}

Status WriteFully(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return IoError("cannot write the trace {}: {}; free some space, or point SAMESTEP_TRACE elsewhere",
                     path, std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

// Whether a tensor's fingerprint stands in the events, and not with an earlier slot.
bool IsStored(const Definition& definition, size_t tensor) {
  return definition.sources[tensor] == 0 || (definition.reread && !definition.site.tensors[tensor].output);
}

std::string EventPayload(const Segment& segment) {
  ByteWriter sites, values, fingerprints, payload;
  int64_t previous = -1;
  for (size_t e = 0; e < segment.events.size(); ++e) {
    const Definition& definition = segment.definition(e);
    const int64_t id = segment.events[e].definition;
    sites.Signed(id - previous - 1);
    previous = id;
    for (size_t i = 0; i < Segment::ValuesOf(definition.site); ++i) {
      const bool plain = definition.site.kind != EventKind::kValue && !definition.site.attributes[i].is_float;
      const uint64_t value = segment.value(e, i);
      if (plain) {
        values.Signed(static_cast<int64_t>(value));
      } else {
        values.Fixed(value, definition.site.kind == EventKind::kValue ? 8 : 4);
      }
    }
    for (size_t i = 0; i < definition.site.tensors.size(); ++i) {
      if (!IsStored(definition, i)) continue;
      fingerprints.Fixed(segment.slot(e, i).a, 8).Fixed(segment.slot(e, i).b, 8);
    }
  }
  payload.Varint(segment.events.size()).Text(sites.bytes()).Text(values.bytes()).Raw(fingerprints.bytes());
  return payload.bytes();
}

// "rank-00003-of-00008.2.trace" -> 3, 8, 2
struct NameParts {
  int32_t rank, ranks, generation;
};
std::optional<NameParts> PartsOf(const std::string& name) {
  NameParts parts{};
  int used = 0;
  if (std::sscanf(name.c_str(), "rank-%d-of-%d%n", &parts.rank, &parts.ranks, &used) != 2) return {};
  std::string_view rest = std::string_view(name).substr(static_cast<size_t>(used));
  if (!rest.ends_with(".trace")) return {};
  rest.remove_suffix(6);
  if (!rest.empty()) {
    if (rest[0] != '.') return {};
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), parts.generation);
    if (error != std::errc() || end != rest.data() + rest.size()) return {};
  }
  if (TraceStem(parts.rank, parts.ranks, parts.generation) + ".trace" != name) return {};
  return parts;
}

// A run that goes on with more or fewer ranks is another trace.
Status CheckRanksOf(const std::string& folder, int32_t ranks) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    const std::optional<NameParts> parts = PartsOf(name);
    if (!parts || parts->ranks == ranks) continue;
    return ConflictError(
        "{} holds the trace of {} ranks, this run has {}; point SAMESTEP_TRACE to another folder (iterations "
        "of both "
        "can be compared with those of a third trace)",
        folder, parts->ranks, ranks);
  }
  return {};
}

}  // namespace

std::string TraceStem(int32_t rank, int32_t ranks, int32_t generation) {
  std::string stem = fmt::format("rank-{:05}-of-{:05}", rank, ranks);
  if (generation > 0) stem += fmt::format(".{}", generation);
  return stem;
}

// ---- Writing ----

std::string_view TraceMark() { return kMagic; }

std::string TraceBlock(int type, const SegmentKey& key, const std::string& payload) {
  SAMESTEP_CHECK_LE(payload.size(), kMaxRaw);
  std::string stored = Compress(payload);
  const bool compressed = stored.size() < payload.size();
  if (!compressed) stored = payload;
  ByteWriter block;
  block.Fixed(kBlockMagic, 4).Fixed(static_cast<uint64_t>(type), 1).Fixed(compressed ? 1 : 0, 1).Fixed(0, 2);
  block.Fixed(static_cast<uint64_t>(key.number()), 8).Fixed(payload.size(), 4).Fixed(stored.size(), 4);
  block.Fixed(Checksum(block.bytes(), stored), 8).Raw(stored);
  return block.bytes();
}

Result<TraceWriter> TraceWriter::Create(const std::string& folder, TraceHeader header) {
  SAMESTEP_RETURN_IF_ERROR(MakeFolders(folder));
  SAMESTEP_RETURN_IF_ERROR(CheckRanksOf(folder, header.ranks));
  TraceWriter writer;
  for (header.generation = 0;; ++header.generation) {
    const std::string stem = JoinPath(folder, TraceStem(header.rank, header.ranks, header.generation));
    writer.path_ = stem + ".trace";
    writer.side_path_ = stem + ".rollup";
    writer.file_ = ::open(writer.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (writer.file_ >= 0) break;
    if (errno != EEXIST) {
      return IoError("cannot create the trace {}: {}; point SAMESTEP_TRACE to a folder that can be written",
                     writer.path_, std::strerror(errno));
    }
    auto earlier = TraceFile::Open(writer.path_);
    if (earlier.ok() && (*earlier)->header().recipe_digest != header.recipe_digest) {
      return ConflictError(
          "{} is the trace of another recipe ({}; this one is {}); point SAMESTEP_TRACE to "
          "another folder",
          writer.path_, (*earlier)->header().recipe_digest, header.recipe_digest);
    }
  }
  writer.side_ = ::open(writer.side_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (writer.side_ < 0) {
    return IoError("cannot create {}: {}", writer.side_path_, std::strerror(errno));
  }
  writer.header_ = std::move(header);
  const std::string json = writer.header_.ToJson();
  SAMESTEP_RETURN_IF_ERROR(writer.Append(std::string(kMagic) + TraceBlock(kHeaderBlock, {}, json)));
  SAMESTEP_RETURN_IF_ERROR(
      WriteFully(writer.side_, std::string(kSideMagic) + DigestOf(json).bytes(), writer.side_path_));
  return writer;
}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept { *this = std::move(other); }

TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept {
  std::swap(header_, other.header_);
  std::swap(path_, other.path_);
  std::swap(side_path_, other.side_path_);
  std::swap(file_, other.file_);
  std::swap(side_, other.side_);
  std::swap(written_, other.written_);
  std::swap(chain_, other.chain_);
  std::swap(ids_, other.ids_);
  std::swap(definitions_, other.definitions_);
  std::swap(new_definitions_, other.new_definitions_);
  std::swap(new_definition_count_, other.new_definition_count_);
  return *this;
}

TraceWriter::~TraceWriter() {
  if (file_ >= 0) ::close(file_);
  if (side_ >= 0) ::close(side_);
}

uint32_t TraceWriter::Define(const std::string& definition_bytes) {
  const auto [it, is_new] = ids_.try_emplace(definition_bytes, static_cast<uint32_t>(definitions_.size()));
  if (is_new) {
    auto parsed = ParseDefinition(definition_bytes);
    SAMESTEP_CHECK(parsed.ok());
    definitions_.push_back(std::make_unique<Definition>(std::move(parsed).value()));
    ByteWriter text;
    text.Text(definition_bytes);
    new_definitions_ += text.bytes();
    ++new_definition_count_;
  }
  return it->second;
}

// One write a call, so that a kill leaves at most one torn block. A write that fails half way is taken back
// as far as the system allows, so that what is there stays whole.
Status TraceWriter::Append(const std::string& bytes) {
  const Status status = WriteFully(file_, bytes, path_);
  if (status.ok()) {
    written_ += bytes.size();
  } else if (::ftruncate(file_, static_cast<off_t>(written_)) != 0) {
    return IoError("{}; its last block is torn", status.message());
  }
  return status;
}

Status TraceWriter::Write(const Segment& segment, RollUp* roll_up) {
  std::string bytes;
  if (new_definition_count_ > 0) {
    ByteWriter definitions;
    definitions.Varint(new_definition_count_).Raw(new_definitions_);
    bytes += TraceBlock(kDefinitionBlock, segment.key, definitions.bytes());
  }
  if (!segment.events.empty()) bytes += TraceBlock(kEventBlock, segment.key, EventPayload(segment));
  if (roll_up != nullptr) {
    roll_up->Link(chain_);
    roll_up->end = 0;  // in the trace itself a reader knows it; the side file's copy says it
    bytes += TraceBlock(kEndBlock, segment.key, roll_up->Bytes());
    roll_up->end = written_ + bytes.size();
  }
  SAMESTEP_RETURN_IF_ERROR(Append(bytes));
  new_definitions_.clear();
  new_definition_count_ = 0;
  if (roll_up == nullptr) return {};
  chain_ = roll_up->chain;
  return WriteFully(side_, roll_up->Bytes(), side_path_);
}

Status TraceWriter::Finish() {
  SAMESTEP_RETURN_IF_ERROR(Append(TraceBlock(kFinishBlock, {}, "")));
  for (int file : {file_, side_}) {
    if (::fsync(file) != 0 && errno != EINVAL)
      return IoError("cannot sync {}: {}", path_, std::strerror(errno));
  }
  return {};
}

// ---- Reading ----

struct TraceFile::Block {
  int type = 0;
  bool compressed = false;
  SegmentKey key;
  uint64_t raw = 0;
  std::string_view stored;
  uint64_t end = 0;
};

Result<std::unique_ptr<TraceFile>> TraceFile::Open(const std::string& path) {
  std::unique_ptr<TraceFile> file(new TraceFile);
  file->path_ = path;
  SAMESTEP_ASSIGN_OR_RETURN(file->map_, MappedFile::Open(path));
  const auto bytes = file->map_->bytes();
  file->bytes_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  SAMESTEP_RETURN_IF_ERROR(file->ReadHeader());
  file->ReadSide(path.substr(0, path.size() - std::string_view(".trace").size()) + ".rollup");
  file->Scan();
  return file;
}

Result<std::unique_ptr<TraceFile>> TraceFile::FromBytes(std::string_view bytes, const std::string& name) {
  std::unique_ptr<TraceFile> file(new TraceFile);
  file->path_ = name;
  file->bytes_ = bytes;
  SAMESTEP_RETURN_IF_ERROR(file->ReadHeader());
  file->Scan();
  return file;
}

Result<TraceFile::Block> TraceFile::BlockAt(uint64_t offset, bool check, bool* cut) const {
  const uint64_t left = bytes_.size() - offset;
  if (left < kBlockHeader) {
    if (cut != nullptr) *cut = true;
    return InvalidError("it ends inside a block's header at byte {}", offset);
  }
  const std::string_view header = bytes_.substr(offset, kBlockHeader);
  ByteReader in(header);
  Block block;
  const uint64_t magic = in.Fixed(4);
  block.type = static_cast<int>(in.Fixed(1));
  const uint64_t codec = in.Fixed(1), reserved = in.Fixed(2);
  block.key = SegmentKey::FromNumber(static_cast<int64_t>(in.Fixed(8)));
  block.raw = in.Fixed(4);
  const uint64_t stored = in.Fixed(4), checksum = in.Fixed(8);
  if (magic != kBlockMagic || block.type < kHeaderBlock || block.type > kFinishBlock || codec > 1 ||
      reserved != 0 || block.raw > kMaxRaw || (codec == 0 && stored != block.raw)) {
    return InvalidError("its bytes are damaged at byte {}: no block begins there", offset);
  }
  if (stored > left - kBlockHeader) {
    if (cut != nullptr) *cut = true;
    return InvalidError("it is truncated: the block at byte {} needs {} bytes, and {} are there", offset,
                        stored + kBlockHeader, left);
  }
  block.compressed = codec == 1;
  block.stored = bytes_.substr(offset + kBlockHeader, stored);
  block.end = offset + kBlockHeader + stored;
  if (check && checksum != Checksum(header.substr(0, kBlockHeader - 8), block.stored)) {
    return InvalidError("its bytes are damaged: the checksum of the block at byte {} does not fit", offset);
  }
  return block;
}

Result<std::string> TraceFile::Payload(const Block& block) const {
  if (!block.compressed) return std::string(block.stored);
  std::string raw(block.raw, '\0');
  const size_t size = ZSTD_decompress(raw.data(), raw.size(), block.stored.data(), block.stored.size());
  if (ZSTD_isError(size) || size != block.raw) {
    return InvalidError("{}: a block of {} does not decompress to its {} bytes", path_, block.key.ToString(),
                        block.raw);
  }
  return raw;
}

Status TraceFile::ReadHeader() {
  if (!bytes_.starts_with(kMagic)) {
    return InvalidError("{}: no Samestep trace ({} bytes, which do not begin with its mark)", path_,
                        bytes_.size());
  }
  auto block = BlockAt(kMagic.size(), /*check=*/true);
  if (!block.ok()) return InvalidError("{}: {}", path_, block.status().message());
  if (block->type != kHeaderBlock) return InvalidError("{}: it begins without a header block", path_);
  SAMESTEP_ASSIGN_OR_RETURN(const std::string json, Payload(*block));
  auto header = TraceHeader::FromJson(json);
  if (!header.ok()) return InvalidError("{}: {}", path_, header.status().message());
  header_ = std::move(header).value();
  header_digest_ = DigestOf(json);
  first_block_ = definitions_end_ = whole_ = block->end;
  return {};
}

// Whether the blocks from `begin` on are one segment that ends with this roll-up, by headers and the end
// block alone.
bool TraceFile::EndsWith(const RollUp& roll_up, uint64_t begin) {
  for (uint64_t at = begin; at < roll_up.end;) {
    auto block = BlockAt(at, /*check=*/false);
    if (block.ok() && block->type == kEndBlock) block = BlockAt(at, /*check=*/true);
    if (!block.ok()) return false;
    bytes_read_ += kBlockHeader;
    at = block->end;
    if (block->type == kDefinitionBlock || block->type == kEventBlock) continue;
    if (block->type != kEndBlock || at != roll_up.end) return false;
    bytes_read_ += block->stored.size();
    const auto payload = Payload(*block);
    RollUp content = roll_up;
    content.end = 0;
    return payload.ok() && *payload == content.Bytes() && block->key == roll_up.key;
  }
  return false;
}

// Roll-ups are in the trace itself, too; the side file saves reading all of it. So whatever is wrong with the
// side file ends its use and no more. Each of its records must be the one in the trace: the side file of
// another run of the recipe has the same header.
void TraceFile::ReadSide(const std::string& path) {
  auto bytes = ReadFile(path);
  if (!bytes.ok()) return;
  const std::string_view side = *bytes;
  side_size_ = bytes_read_ = side.size();
  if (side.size() < kSideHeader || !side.starts_with(kSideMagic)) return;
  if (side.substr(kSideMagic.size(), 16) != header_digest_.bytes()) return;
  uint64_t end = first_block_;
  for (size_t at = kSideHeader; at + RollUp::kBytes <= side.size(); at += RollUp::kBytes) {
    auto roll_up = RollUp::Parse(side.substr(at, RollUp::kBytes));
    if (!roll_up.ok() || roll_up->end <= end || roll_up->end > bytes_.size()) return;
    if (!EndsWith(*roll_up, end)) return;
    end = whole_ = roll_up->end;
    segments_.push_back(*roll_up);
  }
}

// Finds the segments behind the last one known.
void TraceFile::Scan() {
  uint64_t at = whole_;
  bytes_read_ += bytes_.size() - at;
  while (at < bytes_.size() && !finished_) {
    auto block = BlockAt(at, /*check=*/true, &torn_);
    if (!block.ok()) {
      damage_ = block.status().message();
      return;
    }
    at = block->end;
    if (block->type == kFinishBlock) {
      finished_ = true;
      whole_ = at;
    }
    if (block->type != kEndBlock) continue;
    const auto payload = Payload(*block);
    auto roll_up = payload.ok() ? RollUp::Parse(*payload) : Result<RollUp>(payload.status());
    if (!roll_up.ok() || roll_up->key != block->key) {
      damage_ = fmt::format("the end of {} before byte {} is damaged", block->key.ToString(), at);
      return;
    }
    roll_up->end = whole_ = at;
    segments_.push_back(*roll_up);
  }
  if (whole_ < bytes_.size()) {
    torn_ = !finished_;
    damage_ = finished_ ? fmt::format("it has {} bytes behind its end", bytes_.size() - whole_)
                        : fmt::format("it ends inside a segment, {} bytes behind the last whole one",
                                      bytes_.size() - whole_);
  }
}

Status TraceFile::AddDefinitions(const Block& block) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::string payload, Payload(block));
  ByteReader in(payload);
  for (uint64_t n = in.Count(kMaxDefinitions - definitions_.size()); n > 0 && in.ok(); --n) {
    auto definition = ParseDefinition(in.Text(kMaxRaw));
    if (!in.ok()) break;
    if (!definition.ok()) return InvalidError("{}: {}", path_, definition.status().message());
    definitions_.push_back(std::make_unique<Definition>(std::move(definition).value()));
  }
  if (!in.AtEnd()) return InvalidError("{}: a block of definitions is not in its form", path_);
  return {};
}

Status TraceFile::ReadDefinitions(uint64_t end) {
  while (definitions_end_ < end) {
    auto block = BlockAt(definitions_end_, /*check=*/false);
    if (block.ok() && block->type == kDefinitionBlock) block = BlockAt(definitions_end_, /*check=*/true);
    if (!block.ok()) return InvalidError("{}: {}", path_, block.status().message());
    if (block->type == kDefinitionBlock) SAMESTEP_RETURN_IF_ERROR(AddDefinitions(*block));
    definitions_end_ = block->end;
  }
  return {};
}

Status TraceFile::AddEvents(const Block& block, Segment* segment) const {
  SAMESTEP_ASSIGN_OR_RETURN(const std::string payload, Payload(block));
  ByteReader in(payload);
  const uint64_t count = in.Count(kMaxEvents - segment->events.size());
  ByteReader sites(in.Text(kMaxRaw)), values(in.Text(kMaxRaw));
  int64_t previous = -1;
  for (uint64_t e = 0; e < count; ++e) {
    const int64_t limit = static_cast<int64_t>(definitions_.size());
    const int64_t step = std::clamp<int64_t>(sites.Signed(), -limit - 1, limit);
    const int64_t id = previous + 1 + step;
    if (!sites.ok() || id < 0 || id >= limit) {
      return InvalidError("{}: {} names a site that is not defined", path_, segment->key.ToString());
    }
    previous = id;
    const Definition& definition = *definitions_[static_cast<size_t>(id)];
    segment->events.push_back({static_cast<uint32_t>(id), static_cast<uint32_t>(segment->slots.size()),
                               static_cast<uint32_t>(segment->values.size())});
    for (size_t i = 0; i < Segment::ValuesOf(definition.site); ++i) {
      const bool is_value = definition.site.kind == EventKind::kValue;
      const bool plain = !is_value && !definition.site.attributes[i].is_float;
      segment->values.push_back(plain ? static_cast<uint64_t>(values.Signed())
                                      : values.Fixed(is_value ? 8 : 4));
    }
    if (segment->slots.size() + definition.site.tensors.size() > kMaxSlots) in.Fail();
    for (size_t i = 0; i < definition.site.tensors.size() && in.ok(); ++i) {
      if (IsStored(definition, i)) {
        const uint64_t a = in.Fixed(8), b = in.Fixed(8);
        segment->slots.push_back({a, b});
      } else if (definition.sources[i] <= segment->slots.size()) {
        segment->slots.push_back(segment->slots[segment->slots.size() - definition.sources[i]]);
      } else {
        in.Fail();
      }
    }
    if (!in.ok() || !values.ok()) break;
  }
  if (!in.AtEnd() || !sites.AtEnd() || !values.AtEnd()) {
    return InvalidError("{}: a block of {} is not in its form", path_, segment->key.ToString());
  }
  return {};
}

Result<Segment> TraceFile::Read(size_t index) {
  SAMESTEP_CHECK_LT(index, segments_.size());
  const RollUp& roll_up = segments_[index];
  SAMESTEP_RETURN_IF_ERROR(ReadDefinitions(roll_up.end));
  Segment segment;
  segment.key = roll_up.key;
  segment.definitions = &definitions_;
  for (uint64_t at = index == 0 ? first_block_ : segments_[index - 1].end; at < roll_up.end;) {
    auto block = BlockAt(at, /*check=*/true);
    if (!block.ok()) return InvalidError("{}: {}", path_, block.status().message());
    if (block->key != roll_up.key || block->type == kHeaderBlock || block->type == kFinishBlock) {
      return InvalidError("{}: the block at byte {} does not belong to {}", path_, at,
                          roll_up.key.ToString());
    }
    if (block->type == kEventBlock) SAMESTEP_RETURN_IF_ERROR(AddEvents(*block, &segment));
    at = block->end;
  }
  if (segment.events.size() != roll_up.events) {
    return InvalidError("{}: {} has {} events, and its roll-up says {}", path_, segment.key.ToString(),
                        segment.events.size(), roll_up.events);
  }
  return segment;
}

Status TraceFile::Verify() const {
  auto expected = segments_.begin();
  for (uint64_t at = kMagic.size(); at < whole_;) {
    auto block = BlockAt(at, /*check=*/true);
    if (!block.ok()) return InvalidError("{}: {}", path_, block.status().message());
    at = block->end;
    if (block->type != kEndBlock) continue;
    SAMESTEP_ASSIGN_OR_RETURN(const std::string payload, Payload(*block));
    auto own = RollUp::Parse(payload);
    if (own.ok()) own->end = at;
    if (!own.ok() || expected == segments_.end() || expected->Bytes() != own->Bytes()) {
      return InvalidError("{}: the roll-up of {} is not the one beside it in the .rollup file", path_,
                          block->key.ToString());
    }
    ++expected;
  }
  return {};
}

// ---- A rank ----

Result<TraceRank> TraceRank::Open(const std::string& folder, int32_t rank, int32_t ranks) {
  TraceRank out;
  for (int32_t generation = 0;; ++generation) {
    const std::string path = JoinPath(folder, TraceStem(rank, ranks, generation) + ".trace");
    if (generation > 0 && !FileExists(path)) break;
    SAMESTEP_ASSIGN_OR_RETURN(std::unique_ptr<TraceFile> file, TraceFile::Open(path));
    const TraceHeader& h = file->header();
    if (h.rank != rank || h.ranks != ranks || h.generation != generation) {
      return InvalidError(
          "{}: its header says rank {} of {}, generation {}; the file was renamed or mixed up", path, h.rank,
          h.ranks, h.generation);
    }
    if (h.recipe_digest != (generation == 0 ? h : out.header()).recipe_digest) {
      return InvalidError("{}: it is of another recipe than generation 0 in this folder", path);
    }
    out.files_.push_back(std::move(file));
  }
  SAMESTEP_ASSIGN_OR_RETURN(out.iterations_,
                            Selection::Parse(out.files_.back()->header().iterations, "the trace's header"));
  for (size_t g = 0; g < out.files_.size(); ++g) {
    const std::vector<RollUp>& segments = out.files_[g]->segments();
    bool begun = g == 0;
    for (size_t i = 0; i < segments.size(); ++i) {
      const SegmentKey key = segments[i].key;
      // What comes before the first iteration of a resumed run is its loading, no part of the trajectory.
      begun = begun || !key.after;
      if (!begun) continue;
      std::erase_if(out.segments_, [&](const Entry& e) { return e.key >= key; });
      out.segments_.push_back({key, static_cast<int32_t>(g), i});
    }
  }
  return out;
}

const RollUp& TraceRank::roll_up(size_t i) const { return file(i).segments()[segments_[i].segment]; }

Result<Segment> TraceRank::Read(size_t i) {
  return files_[static_cast<size_t>(segments_[i].generation)]->Read(segments_[i].segment);
}

std::string TraceRank::Damage() const {
  // A run that was killed leaves a torn end; the next generation takes over from there.
  const TraceFile& last = *files_.back();
  if (!last.damage().empty()) return fmt::format("{}: {}", last.path(), last.damage());
  return "";
}

Status TraceRank::Verify() const {
  for (const auto& file : files_) SAMESTEP_RETURN_IF_ERROR(file->Verify());
  return {};
}

Result<TraceListing> ListTraces(const std::string& folder) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  TraceListing listing;
  for (const std::string& name : names) {
    const auto parts = PartsOf(name);
    if (!parts) continue;
    if (listing.ranks != 0 && listing.ranks != parts->ranks) {
      return InvalidError("{}: traces of {} and of {} ranks; compare one run a folder", folder, listing.ranks,
                          parts->ranks);
    }
    listing.ranks = parts->ranks;
    if (listing.present.empty() || listing.present.back() != parts->rank)
      listing.present.push_back(parts->rank);
  }
  if (listing.ranks == 0) {
    return NotFoundError(
        "{}: no trace is there (rank-00000-of-00001.trace); record one with SAMESTEP_TRACE={}", folder,
        folder);
  }
  return listing;
}

}  // namespace samestep
