#include "train/replicas.h"

#include <algorithm>
#include <map>

namespace samestep {
namespace {

std::string Text(const ReplicaRecord& record) {
  std::string text;
  for (const ReplicaRecord::Entry& e : record.entries()) text += e.value.bytes() + e.name + '\n';
  return text;
}

struct Line {
  std::string value, name;
};

std::vector<Line> Lines(const std::string& text) {
  std::vector<Line> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at + 16);
    lines.push_back({text.substr(at, 16), text.substr(at + 16, end - at - 16)});
    at = end + 1;
  }
  return lines;
}

std::string RankList(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

// The ranks of one tensor group whose records are not the same.
Status Describe(int64_t step, const std::vector<int>& ranks, const std::vector<std::string>& texts) {
  std::vector<std::vector<Line>> records;
  for (const int rank : ranks) records.push_back(Lines(texts[static_cast<size_t>(rank)]));
  for (size_t i = 0; i < records.front().size(); ++i) {
    std::map<std::string, std::vector<int>> holders;
    for (size_t r = 0; r < ranks.size(); ++r) holders[records[r][i].value].push_back(ranks[r]);
    if (holders.size() == 1) continue;
    std::vector<std::vector<int>> groups;
    for (const auto& [value, holding] : holders) groups.push_back(holding);
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const bool majority = groups.back().size() > groups.front().size();
    return DivergedError(
        "step {}: {} computed other bits of {} than {}, holding the same{}. A processor or its memory is at "
        "fault: take its machine out, and --resume from the last checkpoint",
        step, RankList(groups.front()), records.front()[i].name, RankList(groups.back()),
        majority ? "" : " (no majority: either may be wrong)");
  }
  return {};
}

}  // namespace

Status CompareReplicas(const ProcessGrid& grid, int64_t step, const ReplicaRecord& record) {
  const std::string mine = Text(record);
  const std::vector<std::string> digests = grid.world().Gather(DigestOf(mine).bytes());
  const auto group_of = [&](int rank) { return rank / grid.layout().tensor; };
  bool same = true;
  for (int r = 0; r < grid.world().size(); ++r) {
    same = same && digests[static_cast<size_t>(r)] ==
                       digests[static_cast<size_t>(group_of(r) * grid.layout().tensor)];
  }
  if (same) return {};
  const std::vector<std::string> texts = grid.world().Gather(mine);
  for (int first = 0; first < grid.world().size(); first += grid.layout().tensor) {
    std::vector<int> ranks;
    for (int t = 0; t < grid.layout().tensor; ++t) ranks.push_back(first + t);
    if (Status status = Describe(step, ranks, texts); !status.ok()) return status;
  }
  return {};
}

}  // namespace samestep
