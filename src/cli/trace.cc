// samestep trace info, dump, export: what stands in a trace.
#include <memory>

#include "cli/command.h"
#include "trace/export.h"
#include "trace/stream.h"

namespace samestep {
namespace {

struct TraceArguments {
  std::string folder, output;
  std::string iterations = "all", ranks = "all";
  bool sqlite = false, jsonl = false;
};

void AddSelection(CLI::App& app, TraceArguments* a) {
  app.add_option("TRACE", a->folder, "Folder of the trace")->required();
  app.add_option("--iterations", a->iterations, "These only: 1-3,8 or 100:110");
  app.add_option("--ranks", a->ranks, "These only");
}

Result<ExportSelection> SelectionOf(const TraceArguments& a) {
  ExportSelection selection;
  SAMESTEP_ASSIGN_OR_RETURN(selection.iterations, Selection::Parse(a.iterations, "--iterations"));
  SAMESTEP_ASSIGN_OR_RETURN(selection.ranks, Selection::Parse(a.ranks, "--ranks"));
  return selection;
}

// ---- info
// ---------------------------------------------------------------------------------------------------

struct RankInfo {
  nlohmann::ordered_json json;
  std::string text;
  bool whole = true;
};

Result<RankInfo> InfoOf(const std::string& folder, int32_t number, int32_t ranks) {
  SAMESTEP_ASSIGN_OR_RETURN(TraceRank rank, TraceRank::Open(folder, number, ranks));
  const TraceHeader& header = rank.header();
  uint64_t bytes = 0, events = 0;
  RankInfo info;
  info.json["rank"] = number;
  info.json["files"] = nlohmann::ordered_json::array();
  for (const auto& file : rank.files()) {
    bytes += file->size() + file->side_size();
    nlohmann::ordered_json one = nlohmann::ordered_json::parse(file->header().ToJson());
    one["path"] = file->path();
    one["bytes"] = file->size();
    one["segments"] = file->segments().size();
    one["finished"] = file->finished();
    one["damage"] = file->damage();
    info.json["files"].push_back(std::move(one));
  }
  for (size_t i = 0; i < rank.segments().size(); ++i) events += rank.roll_up(i).events;
  const Status verified = rank.Verify();
  std::string state = "whole";
  if (!rank.finished()) state = "not finished";
  if (!verified.ok()) state = verified.message();
  if (const std::string damage = rank.Damage(); !damage.empty()) state = damage;
  info.whole = state == "whole";
  const int64_t first = rank.segments().empty() ? 0 : rank.segments().front().key.iteration;
  const int64_t last = rank.segments().empty() ? 0 : rank.segments().back().key.iteration;
  const double an_event = events == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(events);
  info.json["iterations"] = {first, last};
  info.json["events"] = events;
  info.json["bytes"] = bytes;
  info.json["bytes_per_event"] = an_event;
  info.json["state"] = state;
  std::string layout;
  for (const auto& [name, value] : header.layout) layout += fmt::format(" {}={}", name, value);
  info.text = fmt::format(
      "rank {} of {}: level {}, iterations {} to {}, {} events in {} bytes ({:.1f} an event), {} file{}\n"
      "  recipe {}, numerics {}, layout{}\n  state: {}\n",
      number, ranks, LevelName(header.level), first, last, events, bytes, an_event, rank.files().size(),
      rank.files().size() == 1 ? "" : "s (resumed)", header.recipe_digest, header.numerics, layout, state);
  return info;
}

int RunInfo(const TraceArguments& a, const Output& out) {
  const auto selection = SelectionOf(a);
  if (!selection.ok()) return out.Error(selection.status());
  const auto listing = ListTraces(a.folder);
  if (!listing.ok()) return out.Error(listing.status());
  nlohmann::ordered_json object;
  object["ranks"] = nlohmann::ordered_json::array();
  std::string text;
  bool whole = true;
  for (const int32_t rank : listing->present) {
    if (!selection->ranks.Has(rank)) continue;
    const auto info = InfoOf(a.folder, rank, listing->ranks);
    if (!info.ok()) return out.Error(info.status());
    object["ranks"].push_back(info->json);
    text += info->text;
    whole = whole && info->whole;
  }
  object["whole"] = whole;
  out.Result(object, text);
  return whole ? 0 : 2;
}

const bool info_registered =
    RegisterCommand("trace info", "What a trace holds, and whether it is whole", [](CLI::App& app) {
      auto a = std::make_shared<TraceArguments>();
      AddSelection(app, a.get());
      app.footer("Exit codes: 0 whole, 2 truncated, damaged, unfinished or no trace.");
      return [a](const Output& out) { return RunInfo(*a, out); };
    });

// ---- dump
// ---------------------------------------------------------------------------------------------------

std::string TextOf(const EventPlace& p) {
  const Site& site = p.segment.site(p.event);
  std::string text = fmt::format("{} event {}: {} micro-batch {} {}", p.segment.key.ToString(), p.event,
                                 KindName(site.kind), site.micro_batch, site.Place());
  if (p.occurrence > 0) text += fmt::format(" #{}", p.occurrence + 1);
  const nlohmann::ordered_json json = EventJson(p);
  if (json.contains("value")) text += " " + json["value"].dump();
  if (!json["attributes"].empty()) text += " " + json["attributes"].dump();
  for (size_t i = 0; i < site.tensors.size(); ++i) {
    const TensorSite& t = site.tensors[i];
    text += fmt::format("\n    {} {} {} {}", t.output ? "output" : "input ", p.segment.slot(p.event, i).hex(),
                        t.role, t.shape.ToString());
    if (!t.whole()) text += fmt::format(" at {} of {}", t.offsets.ToString(), t.global_shape.ToString());
  }
  return text;
}

int RunDump(const TraceArguments& a, const Output& out) {
  const auto selection = SelectionOf(a);
  if (!selection.ok()) return out.Error(selection.status());
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const Status status = ForEachEvent(a.folder, *selection, [&](const EventPlace& p) {
    if (out.json()) {
      events.push_back(EventJson(p));
    } else {
      out.Line(TextOf(p));
    }
    return Status();
  });
  if (!status.ok()) return out.Error(status);
  if (out.json()) out.Result({{"events", events}}, "");
  return 0;
}

const bool dump_registered =
    RegisterCommand("trace dump", "The events of a trace, as text", [](CLI::App& app) {
      auto a = std::make_shared<TraceArguments>();
      AddSelection(app, a.get());
      return [a](const Output& out) { return RunDump(*a, out); };
    });

// ---- export
// -------------------------------------------------------------------------------------------------

int RunExport(const TraceArguments& a, const Output& out) {
  const auto selection = SelectionOf(a);
  if (!selection.ok()) return out.Error(selection.status());
  const Status status = a.sqlite ? ExportSqlite(a.folder, *selection, a.output)
                                 : ExportJsonLines(a.folder, *selection, a.output);
  if (!status.ok()) return out.Error(status);
  out.Result({{"output", a.output}}, fmt::format("wrote {}", a.output));
  return 0;
}

const bool export_registered =
    RegisterCommand("trace export", "A trace as JSON lines or as one SQLite database", [](CLI::App& app) {
      auto a = std::make_shared<TraceArguments>();
      AddSelection(app, a.get());
      app.add_option("-o,--output", a->output, "File to write")->required();
      CLI::Option_group* form = app.add_option_group("Form");
      form->add_flag("--jsonl", a->jsonl, "JSON lines: one event a line");
      form->add_flag("--sqlite", a->sqlite, "Tables file, segment, event, tensor, attribute");
      form->require_option(1);
      return [a](const Output& out) { return RunExport(*a, out); };
    });

}  // namespace
}  // namespace samestep
