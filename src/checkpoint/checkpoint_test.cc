#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>

#include "base/files.h"
#include "checkpoint/box.h"
#include "checkpoint/safetensors.h"
#include "comm/testing/thread_communicator.h"

namespace samestep {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

using Rng = std::mt19937;

int64_t Uniform(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// The logical tensors of a small state, held whole. 96 x 40 reaches over several of the fingerprint's blocks.
struct Logical {
  std::string name, kind;
  Shape shape;
  std::vector<float> values;
};

std::vector<Logical> MakeLogical(unsigned seed) {
  std::vector<Logical> state = {{"embed.weight", "weights", {96, 40}, {}},
                                {"norm.weight", "weights", {37}, {}},
                                {"first_moment.embed.weight", "optimizer", {96, 40}, {}},
                                {"first_moment.norm.weight", "optimizer", {37}, {}}};
  Rng rng(seed);
  for (Logical& l : state) {
    l.values.resize(static_cast<size_t>(l.shape.elements()));
    for (float& v : l.values) {
      const auto bits = static_cast<uint32_t>(rng());  // any bits, NaN patterns too
      std::memcpy(&v, &bits, sizeof v);
    }
  }
  return state;
}

// A box of a logical tensor in memory of its own.
struct Held {
  Held(const Logical& logical, const Box& box, bool filled) : box_(box) {
    const bool flat = logical.shape.rank() == 1;
    shape_ = flat ? Shape{box.columns} : Shape{box.rows, box.columns};
    offsets_ = flat ? Shape{box.column} : Shape{box.row, box.column};
    values_.assign(static_cast<size_t>(box.elements()), -1.0f);
    if (filled) Fill(logical);
    tensor_ = {logical.name, logical.kind, ViewOf(values_.data(), shape_).Within(logical.shape, offsets_)};
  }
  Held(Held&&) = default;  // the memory stays where it is
  const StateTensor& tensor() const { return tensor_; }
  bool Equals(const Logical& logical) const {
    std::vector<float> found = values_;
    Held expected(logical, box_, true);
    return std::memcmp(found.data(), expected.values_.data(), found.size() * sizeof(float)) == 0;
  }

 private:
  // Element by element, unlike the code that is tested.
  void Fill(const Logical& logical) {
    const int64_t width = logical.shape.back();
    for (int64_t r = 0; r < box_.rows; ++r) {
      for (int64_t c = 0; c < box_.columns; ++c) {
        std::memcpy(&values_[static_cast<size_t>(r * box_.columns + c)],
                    &logical.values[static_cast<size_t>((box_.row + r) * width + box_.column + c)],
                    sizeof(float));
      }
    }
  }
  Box box_;
  Shape shape_, offsets_;
  std::vector<float> values_;
  StateTensor tensor_;
};

std::vector<StateTensor> TensorsOf(const std::vector<Held>& held) {
  std::vector<StateTensor> tensors;
  for (const Held& h : held) tensors.push_back(h.tensor());
  return tensors;
}

enum class Cut { kRows, kColumns, kMixed };

std::pair<Box, Box> Halves(const Box& box, bool by_rows, int64_t at) {
  Box first = box, second = box;
  if (by_rows) {
    first.rows = at;
    second.row += at;
    second.rows -= at;
  } else {
    first.columns = at;
    second.column += at;
    second.columns -= at;
  }
  return {first, second};
}

// Boxes that tile a shape; of random sizes.
std::vector<Box> Tiles(const Shape& shape, Cut cut, size_t count, Rng& rng) {
  std::vector<Box> boxes = {WholeBox(shape)};
  while (boxes.size() < count) {
    const auto i = static_cast<size_t>(Uniform(rng, 0, static_cast<int64_t>(boxes.size()) - 1));
    bool by_rows = cut == Cut::kRows || (cut == Cut::kMixed && Uniform(rng, 0, 1) == 0);
    if (shape.rank() == 1) by_rows = false;
    const int64_t extent = by_rows ? boxes[i].rows : boxes[i].columns;
    if (extent < 2) continue;
    const auto [first, second] = Halves(boxes[i], by_rows, Uniform(rng, 1, extent - 1));
    boxes[i] = first;
    boxes.push_back(second);
  }
  return boxes;
}

// What each of `ranks` holds. Mixed: more boxes than ranks, so that a rank may have several of a tensor, or
// none.
std::vector<std::vector<Held>> Deal(const std::vector<Logical>& state, int ranks, Cut cut, bool filled,
                                    Rng& rng) {
  std::vector<std::vector<Held>> held(static_cast<size_t>(ranks));
  for (const Logical& logical : state) {
    const auto count = static_cast<size_t>(cut == Cut::kMixed ? 3 * ranks - 2 : ranks);
    const std::vector<Box> boxes = Tiles(logical.shape, cut, count, rng);
    for (size_t b = 0; b < boxes.size(); ++b) {
      const size_t rank =
          cut == Cut::kMixed ? static_cast<size_t>(Uniform(rng, 0, ranks - 1)) : b % held.size();
      held[rank].emplace_back(logical, boxes[b], filled);
    }
  }
  return held;
}

CheckpointScalars Scalars(int64_t step) {
  return {step, 4 * step, DigestOf("t"), "recipe digest", "a = 1\n", "data digest"};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeFolders(root_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(root_).ok()); }

  // The status that all ranks got, which must be one.
  Status Save(const std::vector<std::vector<Held>>& held, int64_t step) {
    std::vector<Status> statuses(held.size());
    RunAsRanks(static_cast<int>(held.size()), [&](Communicator& group) {
      const auto rank = static_cast<size_t>(group.rank());
      statuses[rank] = SaveCheckpoint(group, root_, Scalars(step), TensorsOf(held[rank]));
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code(), statuses[0].code());
      EXPECT_EQ(status.message(), statuses[0].message());
    }
    return statuses[0];
  }

  std::string SaveWhole(const std::vector<Logical>& state, int64_t step) {
    Rng rng(1);
    EXPECT_TRUE(Save(Deal(state, 1, Cut::kRows, true, rng), step).ok());
    return LatestCheckpoint(root_).value();
  }

  // Saved by four ranks with several parts of a tensor each.
  std::string SaveMixed(const std::vector<Logical>& state) {
    Rng rng(5);
    const Status saved = Save(Deal(state, 4, Cut::kMixed, true, rng), 3);
    EXPECT_TRUE(saved.ok()) << saved.message();
    return LatestCheckpoint(root_).value();
  }

  // What the loads of all ranks answer; each element must have arrived if they are ok.
  static Status Load(const std::string& folder, const std::vector<Logical>& state, int ranks, Cut cut,
                     Rng& rng) {
    const Result<Manifest> manifest = ReadManifest(folder);
    if (!manifest.ok()) return manifest.status();
    std::set<std::string> names;
    for (const Logical& l : state) names.insert(l.name);
    for (const std::vector<Held>& held : Deal(state, ranks, cut, false, rng)) {
      SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, *manifest, TensorsOf(held), Coverage::kAll, names));
      for (const Held& h : held) {
        for (const Logical& l : state) {
          if (l.name != h.tensor().name) continue;
          EXPECT_TRUE(h.Equals(l)) << l.name;
        }
      }
    }
    return {};
  }

  static Status LoadWhole(const std::string& folder, const std::vector<Logical>& state) {
    Rng rng(1);
    return Load(folder, state, 1, Cut::kRows, rng);
  }

  const std::string root_ = testing::TempDir() + "checkpoint_test_" + std::to_string(::getpid());
};

// Replaces the manifest's text and signs it anew.
void ChangeManifest(const std::string& folder, const std::function<std::string(std::string)>& change) {
  const std::string path = folder + "/manifest.json", whole = ReadFile(path).value();
  const std::string body = change(whole.substr(0, whole.size() - 34));
  ASSERT_TRUE(WriteFileAtomically(path, body + "\n" + DigestOf(body).hex() + "\n").ok());
}

TEST_F(CheckpointTest, SavedInAnyLayoutLoadsInAnyOther) {
  const std::vector<Logical> state = MakeLogical(7);
  Rng rng(11);
  for (const int writers : {1, 2, 4}) {
    for (const Cut saved : {Cut::kRows, Cut::kColumns, Cut::kMixed}) {
      const Status status = Save(Deal(state, writers, saved, true, rng), 3);
      ASSERT_TRUE(status.ok()) << status.message();
      const std::string folder = LatestCheckpoint(root_).value();
      for (const int readers : {1, 2, 3}) {
        for (const Cut cut : {Cut::kRows, Cut::kColumns, Cut::kMixed}) {
          const Status loaded = Load(folder, state, readers, cut, rng);
          EXPECT_TRUE(loaded.ok()) << writers << " to " << readers << ": " << loaded.message();
        }
      }
    }
  }
}

TEST_F(CheckpointTest, FingerprintsOfTensorsDoNotDependOnTheLayout) {
  const std::vector<Logical> state = MakeLogical(7);
  const ManifestTensors whole = ReadManifest(SaveWhole(state, 1)).value().tensors;
  const ManifestTensors parts = ReadManifest(SaveMixed(state)).value().tensors;
  ASSERT_EQ(whole.size(), state.size());
  for (const auto& [name, tensor] : whole) {
    EXPECT_EQ(tensor.parts.size(), 1u);
    EXPECT_GT(parts.at(name).parts.size(), 4u);
    EXPECT_EQ(tensor.fingerprint, parts.at(name).fingerprint) << name;
    EXPECT_EQ(tensor.shape, parts.at(name).shape) << name;
  }
}

TEST_F(CheckpointTest, OneProcessWritesWholeTensorsUnderTheirNames) {
  const std::string folder = SaveWhole(MakeLogical(7), 2);
  EXPECT_EQ(ListFolder(folder).value(),
            (std::vector<std::string>{"manifest.json", "optimizer.safetensors", "weights.safetensors"}));
  const ManifestPart part = ReadManifest(folder).value().tensors.at("embed.weight").parts.at(0);
  EXPECT_EQ(part.file, "weights.safetensors");
  EXPECT_EQ(part.name, "embed.weight");
}

TEST_F(CheckpointTest, SeveralRanksWriteFilesOfTheirOwn) {
  const std::string folder = SaveMixed(MakeLogical(7));
  std::vector<std::string> expected = {"manifest.json"};
  for (const char* kind : {"optimizer", "weights"}) {
    for (int r = 0; r < 4; ++r) expected.push_back(fmt::format("{}-0000{}-of-00004.safetensors", kind, r));
  }
  EXPECT_EQ(ListFolder(folder).value(), expected);
  const ManifestTensor tensor = ReadManifest(folder).value().tensors.at("embed.weight");
  EXPECT_TRUE(std::is_sorted(tensor.parts.begin(), tensor.parts.end(), [](const auto& x, const auto& y) {
    return std::pair(x.offsets[0], x.offsets[1]) < std::pair(y.offsets[0], y.offsets[1]);
  }));
  std::map<std::string, int> in_file;
  for (const ManifestPart& part : tensor.parts) ++in_file[part.file];
  for (const ManifestPart& part : tensor.parts) {
    const std::string suffix = fmt::format("@{},{}", part.offsets[0], part.offsets[1]);
    EXPECT_EQ(part.name, "embed.weight" + (in_file.at(part.file) > 1 ? suffix : ""));
  }
}

TEST_F(CheckpointTest, TheSameStateGivesTheSameBytes) {
  const std::vector<Logical> state = MakeLogical(7);
  const auto contents = [&] {
    const std::string folder = SaveMixed(state);
    std::map<std::string, std::string> files;
    const std::vector<std::string> names = ListFolder(folder).value();
    for (const std::string& name : names) files[name] = ReadFile(folder + "/" + name).value();
    return files;
  };
  const auto first = contents();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(contents(), first);
}

TEST_F(CheckpointTest, OneDamagedByteInAnyPartIsRefusedAndNamed) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveMixed(state);
  const Manifest manifest = ReadManifest(folder).value();
  ASSERT_TRUE(LoadWhole(folder, state).ok());
  std::map<std::string, std::map<std::string, size_t>> part_ends;  // by file and name: where its data ends
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const ManifestPart& part : tensor.parts) {
      const std::string path = folder + "/" + part.file, whole = ReadFile(path).value();
      size_t end;
      {
        const SafetensorsFile file = SafetensorsFile::Open(path).value();
        const std::span<const std::byte> last = file.tensors().back().bytes;
        end = whole.size() -
              static_cast<size_t>(last.data() + last.size() - file.Find(part.name)->bytes.data());
      }
      std::string damaged = whole;
      damaged[end] = static_cast<char>(damaged[end] ^ 1);
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      const Status status = LoadWhole(folder, state);
      EXPECT_EQ(status.code(), StatusCode::kInvalid);
      EXPECT_THAT(status.message(),
                  HasSubstr(path + ": tensor " + name + ", part at " + part.offsets.ToString()));
      EXPECT_THAT(status.message(), HasSubstr("has fingerprint"));
      std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
    }
  }
  EXPECT_TRUE(LoadWhole(folder, state).ok());
}

// A rank reads no more than it needs: damage in parts that it does not touch is for others to find.
TEST_F(CheckpointTest, OnlyPartsThatAreTouchedAreRead) {
  const std::vector<Logical> state = MakeLogical(7);
  std::vector<std::vector<Held>> held(2);
  for (const Logical& l : state) {
    const auto [first, second] = Halves(WholeBox(l.shape), false, 20);
    held[0].emplace_back(l, first, true);
    held[1].emplace_back(l, second, true);
  }
  ASSERT_TRUE(Save(held, 1).ok());
  const std::string folder = LatestCheckpoint(root_).value();
  ASSERT_TRUE(RemoveTree(folder + "/weights-00001-of-00002.safetensors").ok());
  const Manifest manifest = ReadManifest(folder).value();
  EXPECT_TRUE(LoadTensors(folder, manifest, {held[0][0].tensor()}, Coverage::kGiven).ok());
  EXPECT_FALSE(LoadTensors(folder, manifest, {held[1][0].tensor()}, Coverage::kGiven).ok());
}

TEST_F(CheckpointTest, MissingFilesAndPartsAreNamed) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveMixed(state), path = folder + "/weights-00002-of-00004.safetensors";
  const std::string whole = ReadFile(path).value();
  ASSERT_TRUE(RemoveTree(path).ok());
  EXPECT_THAT(LoadWhole(folder, state).message(), HasSubstr(path + ": tensor "));
  EXPECT_THAT(LoadWhole(folder, state).message(), HasSubstr("use an older one"));
  for (size_t keep = 0; keep < whole.size(); keep += 1 + whole.size() / 53) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, keep);
    EXPECT_THAT(LoadWhole(folder, state).message(), HasSubstr(path + ": tensor ")) << keep;
  }
  ASSERT_TRUE(WriteSafetensors(path, {}).ok());
  EXPECT_THAT(LoadWhole(folder, state).message(), HasSubstr("is missing"));
}

TEST_F(CheckpointTest, GapsOverlapsAndWrongSumsInAManifestAreRefused) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveMixed(state);
  const Manifest good = ReadManifest(folder).value();
  const auto refusal = [&](const std::function<void(ManifestTensor&)>& change) {
    Manifest bad = good;
    change(bad.tensors.at("norm.weight"));
    EXPECT_TRUE(WriteFileAtomically(folder + "/manifest.json", ManifestText(bad)).ok());
    return LoadWhole(folder, state).message();
  };
  EXPECT_EQ(refusal([](ManifestTensor&) {}), "");
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts.pop_back(); }),
              HasSubstr("tensor norm.weight: the parts hold"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts.clear(); }), HasSubstr("hold 0 of the 37 elements"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts.push_back(t.parts[0]); }), HasSubstr("overlap"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { --t.parts[1].offsets[0]; }), HasSubstr("overlap"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { --t.parts[0].shape[0]; }),
              AnyOf(HasSubstr("empty or not"), HasSubstr("the parts hold")));
  EXPECT_THAT(refusal([](ManifestTensor& t) { ++t.parts.back().offsets[0]; }), HasSubstr("not inside"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts[0].fingerprint.a ^= 1; }), HasSubstr("add up to"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts[0].shape.Append(1); }), HasSubstr("offsets"));
  EXPECT_THAT(refusal([](ManifestTensor& t) { t.parts[0].file = "../x"; }), HasSubstr("not in the folder"));
  // Sums that are right, values that are not where they belong: the part's own fingerprint finds it.
  EXPECT_THAT(refusal([](ManifestTensor& t) { std::swap(t.parts[0].fingerprint, t.parts[1].fingerprint); }),
              HasSubstr("has fingerprint"));
}

// Any change of a manifest that is signed anew is refused, or read as something sound. It never crashes.
TEST_F(CheckpointTest, HostileManifests) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveMixed(state), path = folder + "/manifest.json";
  const std::string whole = ReadFile(path).value(), body = whole.substr(0, whole.size() - 34);
  Rng rng(3);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string changed = body;
    const auto at = static_cast<size_t>(Uniform(rng, 0, static_cast<int64_t>(body.size()) - 1));
    const char* pieces[] = {"", "0", "-", "9999999999999999999", "[", "]", "{}", "null", "\"", ",", "1e9"};
    const std::string piece = pieces[Uniform(rng, 0, 10)];
    changed.replace(at, static_cast<size_t>(Uniform(rng, 0, 3)), piece);
    ASSERT_TRUE(RemoveTree(path).ok());  // a file system may flush what is truncated and written again
    std::ofstream(path, std::ios::binary | std::ios::trunc) << changed << "\n"
                                                            << DigestOf(changed).hex() << "\n";
    refused += LoadWhole(folder, state).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 600);
}

TEST_F(CheckpointTest, CheckpointsOfTheFirstSchemaAreRead) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveWhole(state, 1);
  const Manifest manifest = ReadManifest(folder).value();
  ChangeManifest(folder, [&](std::string text) {
    const size_t tensors = text.find("\"tensors\"");
    text.replace(text.find("samestep-checkpoint-2"), 21, "samestep-checkpoint-1");
    text.resize(tensors);
    text += "\"tensors\": {";
    for (const auto& [name, t] : manifest.tensors) {
      text += fmt::format(R"({}"{}": {{"file": "{}", "dtype": "f32", "shape": {}, "fingerprint": "{}"}})",
                          text.back() == '{' ? "" : ",", name, t.parts[0].file, t.shape.ToString(),
                          t.fingerprint.hex());
    }
    return text + "}}";
  });
  Rng rng(2);
  const Status loaded = Load(folder, state, 3, Cut::kMixed, rng);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
}

TEST_F(CheckpointTest, TensorsOfAnotherModelAreRefused) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string folder = SaveWhole(state, 1);
  std::vector<Logical> fewer = state, more = state, other = state;
  fewer.pop_back();
  more.push_back({"more.weight", "weights", {3}, {1, 2, 3}});
  other[1].shape = {36};
  EXPECT_THAT(LoadWhole(folder, fewer).message(),
              HasSubstr("first_moment.norm.weight is not in this recipe's model"));
  EXPECT_THAT(LoadWhole(folder, more).message(), HasSubstr("no tensor more.weight"));
  EXPECT_THAT(LoadWhole(folder, other).message(), HasSubstr("has shape [37], the recipe's has [36]"));
  // Given names of other ranks, and given no wish for all, one tensor is enough.
  Held one(state[0], WholeBox(state[0].shape), false);
  const Manifest manifest = ReadManifest(folder).value();
  EXPECT_TRUE(LoadTensors(folder, manifest, {one.tensor()}, Coverage::kGiven).ok());
  EXPECT_FALSE(LoadTensors(folder, manifest, {one.tensor()}, Coverage::kAll, {"norm.weight"}).ok());
}

TEST_F(CheckpointTest, RanksWhosePartsDoNotTileAreRefused) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string before = SaveWhole(state, 1);
  Rng rng(4);
  const auto save = [&](const std::function<void(std::vector<std::vector<Held>>&)>& change) {
    std::vector<std::vector<Held>> held = Deal(state, 3, Cut::kMixed, true, rng);
    change(held);
    const std::string message = Save(held, 2).message();
    EXPECT_EQ(ListFolder(root_).value(), std::vector<std::string>{"step-00000001"});
    return message;
  };
  EXPECT_THAT(save([](auto& held) { held[1].pop_back(); }), HasSubstr("the parts hold"));
  EXPECT_THAT(save([&](auto& held) { held[2].emplace_back(state[1], Box{0, 1, 5, 2}, true); }),
              HasSubstr("overlap"));
  EXPECT_THAT(save([&](auto& held) {
                Logical wider = state[1];
                wider.shape = {38};
                held[2].clear();
                held[2].emplace_back(wider, Box{0, 1, 5, 2}, true);
              }),
              HasSubstr("on another rank"));
  EXPECT_TRUE(LoadWhole(before, state).ok());
}

TEST_F(CheckpointTest, RanksAtDifferentStepsAreRefused) {
  std::vector<Status> statuses(3);
  RunAsRanks(3, [&](Communicator& group) {
    statuses[static_cast<size_t>(group.rank())] =
        SaveCheckpoint(group, root_, Scalars(group.rank() == 2 ? 8 : 7), {});
  });
  for (const Status& status : statuses) EXPECT_THAT(status.message(), HasSubstr("rank 2 is at another step"));
  EXPECT_TRUE(ListFolder(root_).value().empty());
}

// While it lives, no file of this process grows above `bytes`: to a rank whose file is larger, the disk is
// full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(CheckpointTest, WhereOneRankCannotWriteAllGetItsErrorAndNothingIsLost) {
  const std::vector<Logical> state = MakeLogical(7);
  const std::string before = SaveWhole(state, 1), text = ReadFile(before + "/manifest.json").value();
  Logical large{"large", "weights", {50000}, std::vector<float>(50000, 1.0f)};
  for (const int64_t step : {1, 2}) {  // the same step again, and the next
    for (const size_t full : {0, 2, 3}) {
      Rng rng(6);
      std::vector<std::vector<Held>> held = Deal(state, 4, Cut::kMixed, true, rng);
      held[full].emplace_back(large, WholeBox(large.shape), true);
      Status status;
      {
        const FileSizeLimit limit(150000);
        status = Save(held, step);
      }
      EXPECT_EQ(status.code(), StatusCode::kIo);
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("weights-0000{}-of-00004.safetensors", full)));
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("rank {}", full)));
      EXPECT_EQ(ListFolder(root_).value(), std::vector<std::string>{"step-00000001"});
      EXPECT_EQ(ReadFile(before + "/manifest.json").value(), text);
      EXPECT_TRUE(LoadWhole(before, state).ok());
      EXPECT_TRUE(Save(held, step + 4).ok());  // with room again
      ASSERT_TRUE(RemoveCheckpointsAfter(root_, 1).ok());
    }
  }
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsOneErrorToAll) {
  ASSERT_TRUE(WriteFileAtomically(root_ + "/file", "x").ok());
  std::vector<Status> statuses(3);
  RunAsRanks(3, [&](Communicator& group) {
    statuses[static_cast<size_t>(group.rank())] = SaveCheckpoint(group, root_ + "/file", Scalars(1), {});
  });
  for (const Status& status : statuses) EXPECT_THAT(status.message(), HasSubstr("cannot make the folder"));
}

// The sweep against every element counted.
TEST(BoxTest, TilingFaultFindsWhatCountingFinds) {
  Rng rng(9);
  int faults = 0;
  for (int round = 0; round < 3000; ++round) {
    const Shape shape{Uniform(rng, 1, 6), Uniform(rng, 1, 6)};
    std::vector<Box> boxes =
        Tiles(shape, Cut::kMixed,
              static_cast<size_t>(Uniform(rng, 1, std::min<int64_t>(8, shape.elements()))), rng);
    for (int64_t changes = Uniform(rng, 0, 2); changes > 0; --changes) {
      Box& box = boxes[static_cast<size_t>(Uniform(rng, 0, static_cast<int64_t>(boxes.size()) - 1))];
      (Uniform(rng, 0, 1) == 0 ? box.row : box.column) += Uniform(rng, 0, 1);
      (Uniform(rng, 0, 1) == 0 ? box.rows : box.columns) += Uniform(rng, -1, 1);
    }
    std::map<std::pair<int64_t, int64_t>, int> held;
    bool sound = true;
    for (const Box& b : boxes) {
      sound = sound && b.rows > 0 && b.columns > 0;
      for (int64_t r = b.row; r < b.row_end(); ++r) {
        for (int64_t c = b.column; c < b.column_end(); ++c) ++held[{r, c}];
      }
    }
    sound = sound && held.size() == static_cast<size_t>(shape.elements());
    for (const auto& [at, count] : held)
      sound = sound && count == 1 && at.first < shape[0] && at.second < shape[1];
    EXPECT_EQ(TilingFault(shape, boxes).empty(), sound) << TilingFault(shape, boxes);
    faults += sound ? 0 : 1;
  }
  EXPECT_GT(faults, 500);
  EXPECT_LT(faults, 2900);
}

}  // namespace
}  // namespace samestep
