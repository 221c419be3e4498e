// Hostile traces: bytes as they are, and blocks whose checksums fit, so that what is inside is reached.
#include <cstddef>
#include <cstdint>

#include "trace/bytes.h"
#include "trace/capture.h"
#include "trace/stream.h"

namespace samestep {
namespace {

void ReadAll(std::string_view bytes) {
  auto file = TraceFile::FromBytes(bytes, "fuzz");
  if (!file.ok()) return;
  for (size_t i = 0; i < (*file)->segments().size() && i < 16; ++i) (void)(*file)->Read(i);
  (void)(*file)->Verify();
}

// type, key, length and payload, again and again.
void ReadBlocks(std::string_view bytes) {
  TraceHeader header;
  std::string file(TraceMark());
  file += TraceBlock(kHeaderBlock, {}, header.ToJson());
  ByteReader in(bytes);
  while (in.ok() && in.remaining() > 0) {
    const int type = static_cast<int>(in.Fixed(1)) % 6;
    const auto key = SegmentKey::FromNumber(static_cast<int64_t>(in.Fixed(1)));
    std::string payload(in.Text(1 << 16));
    // An end whose own checksum fits.
    if (type == kEndBlock) {
      RollUp roll_up;
      roll_up.key = key;
      roll_up.events = static_cast<uint32_t>(payload.size());
      payload = roll_up.Bytes();
    }
    file += TraceBlock(type, key, payload);
  }
  ReadAll(file);
}

}  // namespace
}  // namespace samestep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      samestep::ReadAll(bytes);
      break;
    case 1:
      samestep::ReadBlocks(bytes);
      break;
    case 2:
      (void)samestep::ParseDefinition(bytes);
      break;
    default:
      (void)samestep::TraceHeader::FromJson(bytes);
  }
  return 0;
}
