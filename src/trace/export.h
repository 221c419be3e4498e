// export.h: traces for other programs: JSON lines, and one SQLite database.
//
//   SAMESTEP_RETURN_IF_ERROR(ExportJsonLines(folder, selection, "events.jsonl"));
//   SAMESTEP_RETURN_IF_ERROR(ExportSqlite(folder, selection, "trace.db"));
//
// The tables and fields are on docs/formats/trace.md.
//
// Determinism: the same trace gives the same lines and rows, in execution order.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "trace/selection.h"
#include "trace/stream.h"

namespace samestep {

struct ExportSelection {
  Selection iterations, ranks;
};

// Calls `event` for each chosen event, by rank, then in execution order.
struct EventPlace {
  int32_t rank;
  const Segment& segment;
  size_t event;
  int64_t occurrence;
};
Status ForEachEvent(const std::string& folder, const ExportSelection& selection,
                    const std::function<Status(const EventPlace&)>& event);

nlohmann::ordered_json EventJson(const EventPlace& place);

Status ExportJsonLines(const std::string& folder, const ExportSelection& selection, const std::string& path);
Status ExportSqlite(const std::string& folder, const ExportSelection& selection, const std::string& path);

}  // namespace samestep
