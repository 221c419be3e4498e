#include "train/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>
#include <optional>

#include "base/files.h"

namespace samestep {
namespace {

constexpr size_t kFrameBytes = 12;  // before the data: length and its checksum; after it a checksum of 4
constexpr uint64_t kLongestRecord = uint64_t{1} << 30;

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kReflectedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? kReflectedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

// The format masks checksums, lest data that holds a checksum have a weak one itself.
uint32_t MaskedCrc(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8;
}

std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

uint64_t ReadLittle(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The wire format of protocol buffers: a field is its number and kind, then its value.
enum WireKind : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>((value & 0x7F) | 0x80);
  return text + static_cast<char>(value);
}
std::string Key(uint64_t field, WireKind kind) { return Varint(field << 3 | kind); }
std::string Message(uint64_t field, std::string_view content) {
  return Key(field, kLengthDelimited) + Varint(content.size()) + std::string(content);
}
std::string WallTime(double seconds) {
  return Key(1, kFixed64) + Little(std::bit_cast<uint64_t>(seconds), 8);
}

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The step of an event; 0 if it has none, nothing if the bytes are no event.
std::optional<int64_t> StepOf(std::string_view event) {
  int64_t step = 0;
  while (!event.empty()) {
    const std::optional<uint64_t> key = TakeVarint(event);
    if (!key) return std::nullopt;
    uint64_t skip = 0;
    switch (*key & 7) {
      case kVarint: {
        const std::optional<uint64_t> value = TakeVarint(event);
        if (!value) return std::nullopt;
        if (*key >> 3 == 2) step = static_cast<int64_t>(*value);
        break;
      }
      case kFixed64:
        skip = 8;
        break;
      case kFixed32:
        skip = 4;
        break;
      case kLengthDelimited: {
        const std::optional<uint64_t> length = TakeVarint(event);
        if (!length) return std::nullopt;
        skip = *length;
        break;
      }
      default:
        return std::nullopt;
    }
    if (skip > event.size()) return std::nullopt;
    event.remove_prefix(skip);
  }
  return step;
}

// The records up to `last_step`, until the first that is incomplete or damaged.
std::string KeptRecords(std::string_view file, int64_t last_step) {
  std::string kept;
  while (file.size() >= kFrameBytes) {
    const uint64_t length = ReadLittle(file.substr(0, 8));
    if (ReadLittle(file.substr(8, 4)) != MaskedCrc(file.substr(0, 8)) || length > kLongestRecord) break;
    const size_t whole = kFrameBytes + length + 4;
    if (file.size() < whole) break;
    const std::string_view data = file.substr(kFrameBytes, length);
    if (ReadLittle(file.substr(kFrameBytes + length, 4)) != MaskedCrc(data)) break;
    const std::optional<int64_t> step = StepOf(data);
    if (!step) break;
    if (*step <= last_step) kept += file.substr(0, whole);
    file.remove_prefix(whole);
  }
  return kept;
}

// The folder's event file, or an empty name.
Result<std::string> ExistingFile(const std::string& folder) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names)
    if (name.starts_with("events.out.tfevents.") && !name.ends_with(".partial")) return name;
  return std::string();
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

std::string EventRecord(std::string_view data) {
  const std::string length = Little(data.size(), 8);
  return length + Little(MaskedCrc(length), 4) + std::string(data) + Little(MaskedCrc(data), 4);
}

std::string VersionEvent(double wall_time) { return WallTime(wall_time) + Message(3, "brain.Event:2"); }

std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, float value) {
  const std::string scalar = Message(1, tag) + Key(2, kFixed32) + Little(std::bit_cast<uint32_t>(value), 4);
  return WallTime(wall_time) + Key(2, kVarint) + Varint(static_cast<uint64_t>(step)) +
         Message(5, Message(1, scalar));
}

WallClock SystemClock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
}

WallClock FixedClock(double seconds) {
  return [seconds] { return seconds; };
}

Result<EventWriter> EventWriter::Open(const std::string& folder, WallClock clock, int64_t resume_step) {
  SAMESTEP_ASSIGN_OR_RETURN(std::string name, ExistingFile(folder));
  std::string before, kept;
  if (name.empty()) {
    name = fmt::format("events.out.tfevents.{:010}.samestep", static_cast<int64_t>(clock()));
  } else {
    SAMESTEP_ASSIGN_OR_RETURN(before, ReadFile(JoinPath(folder, name)));
    kept = KeptRecords(before, resume_step);
  }
  if (kept.empty()) kept = EventRecord(VersionEvent(clock()));
  const std::string path = JoinPath(folder, name);
  if (kept != before) SAMESTEP_RETURN_IF_ERROR(WriteFileAtomically(path, kept));
  SAMESTEP_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
  return EventWriter(std::move(file), std::move(clock));
}

Status EventWriter::Scalar(int64_t step, std::string_view tag, double value) {
  return file_.Append(EventRecord(ScalarEvent(clock_(), step, tag, static_cast<float>(value))));
}

}  // namespace samestep
