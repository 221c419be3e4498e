// stream.h: the trace files of one rank, written and read (docs/formats/trace.md).
//
//   SAMESTEP_ASSIGN_OR_RETURN(TraceWriter out, TraceWriter::Create(folder, header));
//   segment.events.push_back({out.Define(definition), ...});
//   SAMESTEP_RETURN_IF_ERROR(out.Write(segment, &roll_up));      // roll_up of a segment that is complete
//   SAMESTEP_RETURN_IF_ERROR(out.Finish());
//
//   SAMESTEP_ASSIGN_OR_RETURN(TraceRank rank, TraceRank::Open(folder, 0));
//   for (size_t i = 0; i < rank.segments().size(); ++i) SAMESTEP_ASSIGN_OR_RETURN(Segment s, rank.Read(i));
//
// Files are appended to and never changed: whatever stops the writer, whole segments stay readable. A run
// that is resumed writes files of its own, the next generation, and those replace the iterations that it did
// again.
//
// Determinism: a file's bytes follow from the events, without times or addresses.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "trace/event.h"
#include "trace/rollup.h"
#include "trace/selection.h"

namespace samestep {

// "rank-00003-of-00008", with ".2" behind it for generation 2.
std::string TraceStem(int32_t rank, int32_t ranks, int32_t generation);

// A block of a file; TraceFile's mark and its blocks follow each other. For the writer and for hostile tests.
enum TraceBlockType : int {
  kHeaderBlock = 1,
  kDefinitionBlock = 2,
  kEventBlock = 3,
  kEndBlock = 4,
  kFinishBlock = 5
};
std::string TraceBlock(int type, const SegmentKey& key, const std::string& payload);
std::string_view TraceMark();

class TraceWriter {
 public:
  // Makes the folder and the files of the next generation; `header.generation` is set by it. kConflict where
  // the folder holds the trace of another recipe.
  static Result<TraceWriter> Create(const std::string& folder, TraceHeader header);
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;
  ~TraceWriter();

  // The number of a definition, the same for equal ones.
  uint32_t Define(const std::string& definition_bytes);
  const std::vector<std::unique_ptr<const Definition>>& definitions() const { return definitions_; }
  // Appends the events of `segment` (slots and values from its first event on). With `roll_up`, the segment
  // is complete: roll_up's chain and end are filled in.
  Status Write(const Segment& segment, RollUp* roll_up);
  Status Finish();
  const TraceHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return written_; }

 private:
  TraceWriter() = default;
  Status Append(const std::string& bytes);
  TraceHeader header_;
  std::string path_, side_path_;
  int file_ = -1, side_ = -1;
  uint64_t written_ = 0;
  Digest chain_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::unique_ptr<const Definition>> definitions_;
  std::string new_definitions_;
  uint64_t new_definition_count_ = 0;
};

// One file. Bytes that are not as they were written make no crash: what stands before them is readable, and
// damage() says what was found and where.
class TraceFile {
 public:
  static Result<std::unique_ptr<TraceFile>> Open(const std::string& path);
  // Of bytes in memory, without a side file (the fuzzer).
  static Result<std::unique_ptr<TraceFile>> FromBytes(std::string_view bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const TraceHeader& header() const { return header_; }
  const std::vector<RollUp>& segments() const { return segments_; }
  bool finished() const { return finished_; }
  const std::string& damage() const { return damage_; }  // empty: none
  // Whether damage() is no more than a tail as a killed writer leaves it: the file ends inside a segment.
  bool torn() const { return torn_; }
  uint64_t size() const { return bytes_.size(); }
  uint64_t side_size() const { return side_size_; }
  uint64_t bytes_read() const { return bytes_read_; }  // of both files, to find the segments
  size_t definition_count() const { return definitions_.size(); }

  Result<Segment> Read(size_t segment);
  // Reads the checksum of every block up to the last whole segment; what is behind it, damage() tells.
  Status Verify() const;

 private:
  struct Block;
  TraceFile() = default;
  Status ReadHeader();
  void ReadSide(const std::string& path);
  void Scan();
  bool EndsWith(const RollUp& roll_up, uint64_t begin);
  // `cut`: whether it fails since the file ends.
  Result<Block> BlockAt(uint64_t offset, bool check, bool* cut = nullptr) const;
  Result<std::string> Payload(const Block& block) const;
  Status ReadDefinitions(uint64_t end);
  Status AddDefinitions(const Block& block);
  Status AddEvents(const Block& block, Segment* segment) const;

  std::string path_;
  std::optional<MappedFile> map_;
  std::string_view bytes_;
  TraceHeader header_;
  Digest header_digest_;
  uint64_t first_block_ = 0;  // behind the header
  uint64_t whole_ = 0;        // behind the last whole segment, or the end block
  uint64_t side_size_ = 0, bytes_read_ = 0;
  std::vector<RollUp> segments_;
  bool finished_ = false, torn_ = false;
  std::string damage_;
  uint64_t definitions_end_ = 0;  // blocks before it have been searched for definitions
  std::vector<std::unique_ptr<const Definition>> definitions_;
};

// All generations of one rank: what the run did, iterations that were done again once.
class TraceRank {
 public:
  struct Entry {
    SegmentKey key;
    int32_t generation;
    size_t segment;
  };
  static Result<TraceRank> Open(const std::string& folder, int32_t rank, int32_t ranks);

  const std::vector<Entry>& segments() const { return segments_; }  // ascending keys
  const RollUp& roll_up(size_t i) const;
  const TraceFile& file(size_t i) const { return *files_[static_cast<size_t>(segments_[i].generation)]; }
  Result<Segment> Read(size_t i);
  const std::vector<std::unique_ptr<TraceFile>>& files() const { return files_; }
  const TraceHeader& header() const { return files_.front()->header(); }
  // Whether the run recorded `iteration`, had it come that far.
  bool Selects(int64_t iteration) const { return iterations_.Has(iteration); }
  bool finished() const { return files_.back()->finished(); }
  // Damage of the last generation; what an earlier one lost to it shows as missing segments.
  std::string Damage() const;
  bool torn() const { return files_.back()->torn(); }  // Damage() is a torn tail
  Status Verify() const;                               // of all generations

 private:
  std::vector<std::unique_ptr<TraceFile>> files_;
  std::vector<Entry> segments_;
  Selection iterations_;
};

struct TraceListing {
  int32_t ranks = 0;
  std::vector<int32_t> present;  // ranks that have a file, ascending
};
// The ranks whose traces are in a folder. kNotFound where there is none, kInvalid where they do not belong
// together.
Result<TraceListing> ListTraces(const std::string& folder);

}  // namespace samestep
