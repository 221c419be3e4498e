#include "trace/export.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <sstream>

#include "trace/toy_test.h"

namespace samestep {
namespace {

using toy::Environment;
using toy::Folder;
using toy::Program;

std::string Query(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  std::string out;
  SAMESTEP_CHECK(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  const auto row = [](void* text, int columns, char** values, char**) {
    for (int i = 0; i < columns; ++i) {
      *static_cast<std::string*>(text) += values[i] == nullptr ? "null|" : std::string(values[i]) + "|";
    }
    return 0;
  };
  char* error = nullptr;
  if (sqlite3_exec(db, sql.c_str(), row, &out, &error) != SQLITE_OK) out = error;
  sqlite3_close(db);
  return out;
}

TEST(Export, JsonLinesAndDatabaseSayWhatTheTraceSays) {
  Folder folder;
  {
    Environment environment({{"SAMESTEP_TRACE", folder.path()}});
    Program().Run();
  }
  ASSERT_TRUE(ExportJsonLines(folder.path(), {}, folder / "events.jsonl").ok());
  std::istringstream lines(*ReadFile(folder / "events.jsonl"));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(events.size(), 32u);
  EXPECT_EQ(events[1]["name"], "toy.scale");
  EXPECT_EQ(events[1]["attributes"]["factor"]["value"], 0.5);
  EXPECT_EQ(events[2]["tensors"][0]["fingerprint"], events[1]["tensors"][1]["fingerprint"]);
  EXPECT_EQ(events[7]["kind"], "value");
  ASSERT_TRUE(ExportSqlite(folder.path(), {}, folder / "trace.db").ok());
  EXPECT_EQ(Query(folder / "trace.db", "SELECT count(*) FROM event"), "32|");
  EXPECT_EQ(Query(folder / "trace.db",
                  "SELECT fingerprint FROM tensor JOIN event ON event_id = id WHERE name = 'toy.scale' AND "
                  "iteration = 1 AND module = 'layers.0' AND role = 'dst'"),
            events[1]["tensors"][1]["fingerprint"].get<std::string>() + "|");
  EXPECT_EQ(Query(folder / "trace.db", "SELECT count(*), min(iteration), max(iteration) FROM segment"),
            "4|1|4|");
  ExportSelection one;
  one.iterations = *Selection::Parse("2", "");
  ASSERT_TRUE(ExportSqlite(folder.path(), one, folder / "trace.db").ok());  // replaces what was there
  EXPECT_EQ(Query(folder / "trace.db", "SELECT count(*) FROM event"), "8|");
}

TEST(Export, FailuresLeaveNothingBehind) {
  Folder folder, empty;
  EXPECT_FALSE(ExportJsonLines(empty.path(), {}, folder / "x.jsonl").ok());
  EXPECT_FALSE(ExportSqlite(empty.path(), {}, folder / "x.db").ok());
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace samestep
