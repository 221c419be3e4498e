#include "trace/export.h"

#include <sqlite3.h>

#include <bit>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/files.h"

namespace samestep {
namespace {

using nlohmann::ordered_json;

std::vector<int64_t> Extents(const Shape& shape) {
  std::vector<int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

// The number and, since JSON has no NaN, its bits.
ordered_json RealJson(double value, const std::string& bits) {
  ordered_json json;
  json["bits"] = bits;
  json["value"] = std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
  return json;
}

ordered_json ValueJson(const Site& site, size_t i, uint64_t value) {
  if (site.kind == EventKind::kValue) {
    return RealJson(std::bit_cast<double>(value), fmt::format("0x{:016x}", value));
  }
  if (!site.attributes[i].is_float) return static_cast<int64_t>(value);
  const auto bits = static_cast<uint32_t>(value);
  return RealJson(std::bit_cast<float>(bits), fmt::format("0x{:08x}", bits));
}

std::string_view PlacementName(Placement placement) {
  constexpr std::string_view kNames[] = {"shard", "replica", "partial"};
  return kNames[static_cast<size_t>(placement)];
}

class Database {
 public:
  Status Open(const std::string& path) {
    path_ = path;
    if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) return Failed("open");
    return Run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
  }
  ~Database() {
    for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  Status Run(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? Status()
                                                                                  : Failed("write");
  }
  // Inserts a row; texts and integers.
  Status Insert(const std::string& table, const std::vector<ordered_json>& row) {
    sqlite3_stmt*& statement = statements_[table];
    if (statement == nullptr) {
      std::string sql = "INSERT INTO " + table + " VALUES (?";
      for (size_t i = 1; i < row.size(); ++i) sql += ",?";
      sql += ")";
      if (sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return Failed("write");
    }
    sqlite3_reset(statement);
    for (size_t i = 0; i < row.size(); ++i) {
      const int at = static_cast<int>(i) + 1;
      if (row[i].is_string()) {
        const auto& text = row[i].get_ref<const std::string&>();
        sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
      } else if (row[i].is_number_float()) {
        sqlite3_bind_double(statement, at, row[i].get<double>());
      } else if (row[i].is_null()) {
        sqlite3_bind_null(statement, at);
      } else {
        sqlite3_bind_int64(statement, at, row[i].get<int64_t>());
      }
    }
    return sqlite3_step(statement) == SQLITE_DONE ? Status() : Failed("write");
  }

 private:
  Status Failed(std::string_view action) const {
    return IoError("cannot {} the database {}: {}", action, path_, sqlite3_errmsg(db_));
  }
  std::string path_;
  sqlite3* db_ = nullptr;
  std::unordered_map<std::string, sqlite3_stmt*> statements_;
};

constexpr const char* kTables = R"(
CREATE TABLE file(rank INTEGER, generation INTEGER, header TEXT);
CREATE TABLE segment(rank INTEGER, iteration INTEGER, after INTEGER, generation INTEGER, events INTEGER,
                     required TEXT, chain TEXT);
CREATE TABLE event(id INTEGER PRIMARY KEY, rank INTEGER, iteration INTEGER, after INTEGER, event INTEGER, kind TEXT,
                   phase TEXT, micro_batch INTEGER, module TEXT, name TEXT, version INTEGER, occurrence INTEGER);
CREATE TABLE tensor(event_id INTEGER, position INTEGER, role TEXT, is_output INTEGER, dtype TEXT, shape TEXT,
                    global_shape TEXT, offsets TEXT, placement TEXT, fingerprint TEXT);
CREATE TABLE attribute(event_id INTEGER, name TEXT, bits TEXT, value);
)";
constexpr const char* kIndexes = R"(
CREATE INDEX event_place ON event(iteration, rank, event);
CREATE INDEX event_name ON event(name);
CREATE INDEX tensor_event ON tensor(event_id);
CREATE INDEX attribute_event ON attribute(event_id);
COMMIT)";

Status InsertEvent(const EventPlace& p, int64_t id, Database* db) {
  const Site& site = p.segment.site(p.event);
  SAMESTEP_RETURN_IF_ERROR(db->Insert(
      "event",
      {id, p.rank, p.segment.key.iteration, p.segment.key.after ? 1 : 0, static_cast<int64_t>(p.event),
       std::string(KindName(site.kind)), std::string(PhaseName(site.phase)), site.micro_batch, site.module,
       site.name, site.version, p.occurrence}));
  for (size_t i = 0; i < site.tensors.size(); ++i) {
    const TensorSite& t = site.tensors[i];
    SAMESTEP_RETURN_IF_ERROR(db->Insert(
        "tensor", {id, static_cast<int64_t>(i), t.role, t.output ? 1 : 0, std::string(NameOf(t.dtype)),
                   t.shape.ToString(), t.global_shape.ToString(), t.offsets.ToString(),
                   std::string(PlacementName(t.placement)), p.segment.slot(p.event, i).hex()}));
  }
  for (size_t i = 0; i < Segment::ValuesOf(site); ++i) {
    const ordered_json value = ValueJson(site, i, p.segment.value(p.event, i));
    const std::string name = site.kind == EventKind::kValue ? "value" : site.attributes[i].name;
    const bool real = value.is_object();
    SAMESTEP_RETURN_IF_ERROR(db->Insert("attribute", {id, name, real ? value["bits"] : ordered_json(nullptr),
                                                      real ? value["value"] : value}));
  }
  return {};
}

Status FillDatabase(const std::string& folder, const ExportSelection& selection, const std::string& path) {
  Database db;
  SAMESTEP_RETURN_IF_ERROR(db.Open(path));
  SAMESTEP_RETURN_IF_ERROR(db.Run(kTables));
  SAMESTEP_ASSIGN_OR_RETURN(const TraceListing listing, ListTraces(folder));
  for (const int32_t number : listing.present) {
    if (!selection.ranks.Has(number)) continue;
    SAMESTEP_ASSIGN_OR_RETURN(const TraceRank rank, TraceRank::Open(folder, number, listing.ranks));
    for (const auto& file : rank.files()) {
      SAMESTEP_RETURN_IF_ERROR(
          db.Insert("file", {number, file->header().generation, file->header().ToJson()}));
    }
    for (size_t i = 0; i < rank.segments().size(); ++i) {
      const RollUp& r = rank.roll_up(i);
      if (!selection.iterations.Has(r.key.iteration)) continue;
      SAMESTEP_RETURN_IF_ERROR(
          db.Insert("segment", {number, r.key.iteration, r.key.after ? 1 : 0, rank.segments()[i].generation,
                                static_cast<int64_t>(r.events), r.required.hex(), r.chain.hex()}));
    }
  }
  int64_t id = 0;
  SAMESTEP_RETURN_IF_ERROR(
      ForEachEvent(folder, selection, [&](const EventPlace& p) { return InsertEvent(p, ++id, &db); }));
  return db.Run(kIndexes);
}

}  // namespace

Status ForEachEvent(const std::string& folder, const ExportSelection& selection,
                    const std::function<Status(const EventPlace&)>& event) {
  SAMESTEP_ASSIGN_OR_RETURN(const TraceListing listing, ListTraces(folder));
  for (const int32_t number : listing.present) {
    if (!selection.ranks.Has(number)) continue;
    SAMESTEP_ASSIGN_OR_RETURN(TraceRank rank, TraceRank::Open(folder, number, listing.ranks));
    for (size_t i = 0; i < rank.segments().size(); ++i) {
      if (!selection.iterations.Has(rank.segments()[i].key.iteration)) continue;
      SAMESTEP_ASSIGN_OR_RETURN(const Segment segment, rank.Read(i));
      const std::vector<int64_t> occurrences = OccurrencesOf(segment);
      for (size_t e = 0; e < segment.events.size(); ++e) {
        SAMESTEP_RETURN_IF_ERROR(event({number, segment, e, occurrences[e]}));
      }
    }
  }
  return {};
}

ordered_json EventJson(const EventPlace& p) {
  const Site& site = p.segment.site(p.event);
  ordered_json json = {{"rank", p.rank},
                       {"iteration", p.segment.key.iteration},
                       {"after", p.segment.key.after},
                       {"event", p.event},
                       {"kind", KindName(site.kind)},
                       {"phase", PhaseName(site.phase)},
                       {"micro_batch", site.micro_batch},
                       {"module", site.module},
                       {"name", site.name},
                       {"version", site.version},
                       {"occurrence", p.occurrence}};
  if (site.kind == EventKind::kValue) json["value"] = ValueJson(site, 0, p.segment.value(p.event, 0));
  json["attributes"] = ordered_json::object();
  for (size_t i = 0; i < site.attributes.size(); ++i) {
    json["attributes"][site.attributes[i].name] = ValueJson(site, i, p.segment.value(p.event, i));
  }
  json["tensors"] = ordered_json::array();
  for (size_t i = 0; i < site.tensors.size(); ++i) {
    const TensorSite& t = site.tensors[i];
    ordered_json one = {{"role", t.role},
                        {"access", t.output ? "output" : "input"},
                        {"dtype", NameOf(t.dtype)},
                        {"shape", Extents(t.shape)},
                        {"global_shape", Extents(t.global_shape)},
                        {"offsets", Extents(t.offsets)},
                        {"placement", PlacementName(t.placement)}};
    if (t.placement == Placement::kPartial) one["lanes"] = {t.lane_begin, t.lane_end, t.lane_count};
    one["fingerprint"] = p.segment.slot(p.event, i).hex();
    json["tensors"].push_back(std::move(one));
  }
  return json;
}

Status ExportJsonLines(const std::string& folder, const ExportSelection& selection, const std::string& path) {
  SAMESTEP_ASSIGN_OR_RETURN(FileWriter out, FileWriter::Create(path));
  SAMESTEP_RETURN_IF_ERROR(ForEachEvent(folder, selection, [&](const EventPlace& p) {
    const std::string line =
        EventJson(p).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return out.Write(line.data(), line.size());
  }));
  return out.Commit();
}

Status ExportSqlite(const std::string& folder, const ExportSelection& selection, const std::string& path) {
  const std::string partial = path + ".partial";
  SAMESTEP_RETURN_IF_ERROR(RemoveTree(partial));
  const Status status = FillDatabase(folder, selection, partial);
  if (status.ok()) return RenameDurably(partial, path);
  (void)RemoveTree(partial);
  return status;
}

}  // namespace samestep
