#include "train/members.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "fingerprint/digest.h"

namespace samestep {
namespace {

// Lengths before contents, so that no value can look like the end of one.
std::string Pack(const std::vector<MemberFact>& facts) {
  RecordWriter writer;
  for (const MemberFact& fact : facts) writer.Text(fact.value);
  return writer.bytes();
}

std::vector<std::string> Unpack(const std::string& bytes) {
  std::vector<std::string> values;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i)
      length |= static_cast<size_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    values.push_back(bytes.substr(at + 4, length));
    at += 4 + length;
  }
  return values;
}

std::string LineAt(const std::string& text, size_t begin) {
  return text.substr(begin, text.find('\n', begin) - begin);
}

// What of two values to show: of texts of several lines the first that differs.
std::pair<std::string, std::string> Shown(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '\n') line = i + 1;
  }
  return {LineAt(a, line), LineAt(b, line)};
}

}  // namespace

Status CompareFacts(Communicator& group, const std::vector<MemberFact>& facts) {
  const std::vector<std::string> all = group.Gather(Pack(facts));
  const std::vector<std::string> first = Unpack(all.front());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const std::vector<std::string> values = Unpack(all[rank]);
    for (size_t i = 0; i < facts.size() && i < values.size() && i < first.size(); ++i) {
      if (values[i] == first[i]) continue;
      const auto [theirs, ours] = Shown(values[i], first[i]);
      return UsageError("rank {} has another {} than rank 0: {} against {}; give every rank the same", rank,
                        facts[i].name, theirs, ours);
    }
    return UsageError(
        "rank {} states {} facts about itself, rank 0 {}; give every rank the same program and recipe", rank,
        values.size(), first.size());
  }
  return {};
}

std::string ProgramDigest() {
  const Result<std::string> bytes = ReadFile("/proc/self/exe", uint64_t{1} << 31);
  return bytes.ok() ? DigestOf(*bytes).hex() : "unknown";
}

}  // namespace samestep
