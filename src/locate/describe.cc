#include "locate/describe.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace samestep {
namespace {

using nlohmann::ordered_json;

// One argument: type, extents, and its place where it is a part.
std::string KindOf(const TensorSite& tensor) {
  std::string text = fmt::format("{} {}", NameOf(tensor.dtype), tensor.shape.ToString());
  if (!tensor.whole()) {
    text += fmt::format(" at {} of {}", tensor.offsets.ToString(), tensor.global_shape.ToString());
  }
  if (tensor.placement == Placement::kPartial) {
    text += fmt::format(" (partial sum of lanes {} to {} of {})", tensor.lane_begin, tensor.lane_end - 1,
                        tensor.lane_count);
  }
  return text;
}

std::string IndexText(const std::vector<int64_t>& index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i) text += fmt::format("{}{}", i > 0 ? ", " : "", index[i]);
  return text + "]";
}

bool IsRollUp(const Site& site) {
  return site.kind == EventKind::kPhaseRollUp || site.kind == EventKind::kModuleRollUp;
}

std::string_view VerdictName(Verdict verdict) {
  constexpr std::string_view kNames[] = {"same", "diverged", "cannot judge"};
  return kNames[static_cast<size_t>(verdict)];
}

// `several`: the finding is of one rank of several, which may have received what differs.
std::string Explain(const Finding& finding, bool several) {
  switch (finding.kind) {
    case FindingKind::kOrigin:
      if (finding.between)
        return "all that was compared before it agrees: the difference arises in these calls";
      return IsRollUp(finding.site)
                 ? fmt::format(
                       "all that this {} reads from outside agrees, and what it writes does not: the "
                       "difference arises inside; SAMESTEP_LEVEL=kernel names the call",
                       KindName(finding.site.kind))
                 : "its inputs agree and its output does not: the difference arises in this call";
    case FindingKind::kData:
      return "the data differ: the order of samples, the files, or the position after a resume";
    case FindingKind::kState:
      if (several)
        return "all that this rank recorded before it agrees: another rank sent what differs, or the state "
               "was "
               "changed outside of recorded calls";
      return "all that was recorded before it agrees: the state was changed, or restored otherwise, outside "
             "of "
             "recorded calls";
    case FindingKind::kChanged:
      return several ? "what other ranks made of it differs, or memory changed between two calls"
                     : "memory changed between two calls";
    case FindingKind::kSettings:
      return "its tensors agree, and it was called in another way";
    case FindingKind::kValue:
      return several
                 ? "all that this rank recorded before it agrees; it was made of what other ranks sent, or "
                   "outside of recorded calls"
                 : "all that was recorded before it agrees; it was computed outside of recorded calls";
    case FindingKind::kControlFlow:
      return "the runs did not make the same calls here";
    case FindingKind::kReplica:
      return "ranks of one run disagree on what they all should have: a rank computed or received something "
             "else "
             "than its peers";
  }
  return "";
}

std::string MicroBatchText(const Site& site) {
  return site.micro_batch < 0 ? ", all micro-batches" : fmt::format(", micro-batch {}", site.micro_batch);
}

// Whose traces say so, where several ranks' were taken together.
std::string RanksText(const Finding& finding) {
  std::string text;
  for (const auto* ranks : {&finding.ranks_a, &finding.ranks_b}) {
    if (ranks->empty()) continue;
    text += fmt::format("{}{}: rank{} {}", text.empty() ? "" : "; ", ranks == &finding.ranks_a ? 'A' : 'B',
                        ranks->size() > 1 ? "s" : "", fmt::join(*ranks, ", "));
  }
  return text.empty() ? text : "in " + text;
}

void AppendFinding(const Finding& finding, bool several, std::string* out) {
  const Site& site = finding.site;
  *out += fmt::format("  {}: {}", FindingName(finding.kind), PhaseName(site.phase));
  *out += MicroBatchText(site);
  if (!site.module.empty()) *out += fmt::format(", module {}", site.module);
  if (!site.name.empty()) {
    *out += fmt::format(", {} {}", site.kind == EventKind::kCall ? "kernel" : KindName(site.kind), site.name);
  }
  if (finding.occurrence > 0) *out += fmt::format(" (call {} of its kind there)", finding.occurrence + 1);
  *out += fmt::format("\n    {}\n", Explain(finding, several));
  if (const std::string ranks = RanksText(finding); !ranks.empty()) *out += fmt::format("    {}\n", ranks);
  if (!finding.detail.empty()) *out += fmt::format("    {}\n", finding.detail);
  for (const std::string& place : finding.only_a) *out += fmt::format("    only in A: {}\n", place);
  for (const std::string& place : finding.only_b) *out += fmt::format("    only in B: {}\n", place);
  for (const ArgumentReport& argument : finding.arguments) {
    *out += fmt::format("    {:6} {:14} {}\n", argument.site.output ? "output" : "input", argument.site.role,
                        IsRollUp(site) ? "roll-up" : KindOf(argument.site));
    if (argument.same()) {
      *out += fmt::format("           {}  same in both\n", argument.a.hex());
    } else {
      *out += fmt::format("           A {}\n           B {}  differs\n", argument.a.hex(), argument.b.hex());
    }
    if (!argument.elements) continue;
    const ElementDifference& d = *argument.elements;
    *out += fmt::format("           first differing element {}: A {}, B {}, {} ULP apart\n",
                        IndexText(d.first), d.text_a, d.text_b, d.ulps);
    *out += fmt::format("           {} of {} elements differ, by at most {} ULP\n", d.differing, d.elements,
                        d.largest_ulps);
  }
}

std::string AgreedText(const RankComparison& rank) {
  if (rank.first < 0) return "";
  return rank.first == rank.last ? fmt::format("iteration {} agrees", rank.first)
                                 : fmt::format("iterations {} to {} agree", rank.first, rank.last);
}

void AppendRank(const RankComparison& rank, bool several, std::string* out) {
  const std::string who = several ? fmt::format("rank {}: ", rank.rank) : "";
  if (rank.verdict == Verdict::kCannotJudge) {
    *out += fmt::format("{}cannot judge: {}\n", who, rank.reason);
    if (const std::string agreed = AgreedText(rank); !agreed.empty()) *out += fmt::format("  {}\n", agreed);
    return;
  }
  const SegmentDifference& d = rank.difference;
  const Finding& first = d.findings.front();
  *out += fmt::format("{}diverged {} {}", who, first.key.after ? "" : "in", first.key.ToString());
  const std::string agreed = AgreedText(rank);
  *out += agreed.empty() ? "\n" : fmt::format(" ({})\n", agreed);
  AppendFinding(first, several, out);
  if (rank.resumed_a || rank.resumed_b) {
    *out += fmt::format("    this is the first iteration after a resume of {}\n",
                        rank.resumed_a && rank.resumed_b ? "A and B"
                        : rank.resumed_a                 ? "A"
                                                         : "B");
  }
  *out += fmt::format("  of {} events that both have, {} read something that differed already\n", d.compared,
                      d.receivers);
  if (d.findings.size() > 1) {
    *out += fmt::format("  {} more that no earlier difference explains:\n", d.findings.size() - 1);
    for (size_t i = 1; i < std::min<size_t>(d.findings.size(), 4); ++i) {
      const Finding& f = d.findings[i];
      *out += fmt::format("    {}: {}{}\n", FindingName(f.kind), f.site.Place(), MicroBatchText(f.site));
    }
  }
}

ordered_json JsonOf(const Finding& finding, bool several) {
  ordered_json json;
  json["kind"] = FindingName(finding.kind);
  json["iteration"] = finding.key.iteration;
  json["after_iteration"] = finding.key.after;
  json["phase"] = PhaseName(finding.site.phase);
  json["micro_batch"] = finding.site.micro_batch;
  json["module"] = finding.site.module;
  json["event"] = KindName(finding.site.kind);
  json["name"] = finding.site.name;
  json["occurrence"] = finding.occurrence;
  json["event_a"] = finding.event_a;
  json["event_b"] = finding.event_b;
  json["ranks_a"] = finding.ranks_a;
  json["ranks_b"] = finding.ranks_b;
  json["explanation"] = Explain(finding, several);
  json["detail"] = finding.detail;
  if (finding.kind == FindingKind::kControlFlow) {
    json["only_a"] = finding.only_a;
    json["only_b"] = finding.only_b;
  }
  json["arguments"] = ordered_json::array();
  for (const ArgumentReport& argument : finding.arguments) {
    ordered_json one = {
        {"role", argument.site.role},      {"access", argument.site.output ? "output" : "input"},
        {"tensor", KindOf(argument.site)}, {"a", argument.a.hex()},
        {"b", argument.b.hex()},           {"same", argument.same()}};
    if (argument.elements) {
      const ElementDifference& d = *argument.elements;
      one["elements"] = {{"total", d.elements},
                         {"differing", d.differing},
                         {"first", d.first},
                         {"a", d.text_a},
                         {"b", d.text_b},
                         {"ulps", d.ulps},
                         {"largest_ulps", d.largest_ulps}};
    }
    json["arguments"].push_back(std::move(one));
  }
  return json;
}

ordered_json JsonOf(const RankComparison& rank, bool several) {
  ordered_json one;
  one["rank"] = rank.rank;
  one["verdict"] = VerdictName(rank.verdict);
  one["reason"] = rank.reason;
  one["first_agreeing_iteration"] = rank.first;
  one["last_agreeing_iteration"] = rank.last;
  one["events_compared"] = rank.difference.compared;
  one["receivers"] = rank.difference.receivers;
  one["origins"] = rank.difference.origins;
  one["tensors_compared"] = rank.difference.tensors;
  one["compared_in_part"] = rank.difference.in_part;
  one["not_comparable"] = rank.difference.not_comparable;
  one["only_in_one"] = rank.difference.only_in_one;
  one["resumed"] = {{"a", rank.resumed_a}, {"b", rank.resumed_b}};
  one["findings"] = ordered_json::array();
  for (const Finding& finding : rank.difference.findings) one["findings"].push_back(JsonOf(finding, several));
  return one;
}

}  // namespace

std::string_view FindingName(FindingKind kind) {
  constexpr std::string_view kNames[] = {"origin",   "data",  "state",        "changed in between",
                                         "settings", "value", "control flow", "replicas differ"};
  return kNames[static_cast<size_t>(kind)];
}

std::string DescribeText(const Comparison& c) {
  std::string out;
  const bool several = c.ranks.size() > 1;
  if (c.verdict == Verdict::kSame) {
    const RankComparison& rank = c.ranks.front();
    out += fmt::format("same: {}", AgreedText(rank));
    if (several) out += fmt::format(" on {} ranks", c.ranks.size());
    out += fmt::format(" (level {}, by {})\n", c.level, c.strength);
  } else if (c.ranks.empty()) {
    out += fmt::format("cannot judge: {}\n", c.reason);
  }
  if (c.together) {
    AppendRank(*c.together, false, &out);
    out += "rank by rank:\n";
  }
  size_t shown = 0, agreeing = 0;
  for (const Verdict verdict : {Verdict::kDiverged, Verdict::kCannotJudge}) {
    for (const RankComparison& rank : c.ranks) {
      if (rank.verdict != verdict) continue;
      if (++shown <= 8) AppendRank(rank, several, &out);
    }
  }
  for (const RankComparison& rank : c.ranks) agreeing += rank.verdict == Verdict::kSame ? 1 : 0;
  if (shown > 8) out += fmt::format("and {} more ranks (--json lists all)\n", shown - 8);
  if (shown > 0 && agreeing > 0) out += fmt::format("{} other ranks agree\n", agreeing);
  for (const std::string& warning : c.warnings) out += fmt::format("warning: {}\n", warning);
  for (const std::string& note : c.notes) out += fmt::format("note: {}\n", note);
  if (c.bytes > 0) {
    out += fmt::format("read {} of {} bytes{}\n", std::min(c.bytes_read, c.bytes), c.bytes,
                       c.verified                    ? " (checksums of all blocks included)"
                       : c.verdict == Verdict::kSame ? " (not the checksums of all blocks: --verify)"
                                                     : "");
  }
  if (!out.empty()) out.pop_back();
  return out;
}

ordered_json DescribeJson(const Comparison& c) {
  ordered_json json;
  json["verdict"] = VerdictName(c.verdict);
  json["exit_code"] = c.ExitCode();
  json["a"] = c.path_a;
  json["b"] = c.path_b;
  json["reason"] = c.reason;
  json["level"] = c.level;
  json["strength"] = c.strength;
  json["verified"] = c.verified;
  json["across_layouts"] = c.across_layouts;
  json["ranks"] = ordered_json::array();
  for (const RankComparison& rank : c.ranks) {
    json["ranks"].push_back(JsonOf(rank, c.ranks.size() > 1));
  }
  if (c.together) json["together"] = JsonOf(*c.together, false);
  json["warnings"] = c.warnings;
  json["notes"] = c.notes;
  json["bytes"] = c.bytes;
  json["bytes_read"] = std::min(c.bytes_read, c.bytes);
  return json;
}

}  // namespace samestep
