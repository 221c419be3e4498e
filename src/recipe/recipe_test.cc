#include "recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/files.h"
#include "recipe/nearest.h"
#include "recipe/schema.h"

namespace samestep {
namespace {

using testing::HasSubstr;

constexpr const char* kTiny = R"([model]
family = "llama"
vocab = 256
hidden = 64
layers = 2
heads = 4
kv_heads = 2
intermediate = 192
sequence = 128

[data]
path = "corpus"

[train]
steps = 100
global_batch = 12

[optimizer]
lr = 0.003
warmup_steps = 10
)";

constexpr const char* kGpt2 = R"([model]
family = "gpt2"
vocab = 50257
hidden = 64
layers = 2
heads = 4
sequence = 128
[data]
sources = [{path = "a", weight = 2}, {path = "/x/b", weight = 0.5}]
[train]
steps = 100
global_batch = 12
[optimizer]
lr = 1e-3
schedule = "constant"
)";

Result<Recipe> Parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return ParseRecipe(text, "tiny.toml", "/recipes", overrides);
}

Recipe Tiny(const std::vector<std::string>& overrides = {}) {
  Result<Recipe> recipe = Parse(kTiny, overrides);
  EXPECT_TRUE(recipe.ok()) << recipe.status().message();
  return recipe.ok() ? *recipe : Recipe();
}

std::string Refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Result<Recipe> recipe = Parse(text, overrides);
  if (recipe.ok()) return "accepted";
  EXPECT_EQ(recipe.status().code(), StatusCode::kUsage);
  return recipe.status().message();
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RecipeTest, ReadsAndCompletes) {
  const Recipe r = Tiny();
  EXPECT_EQ(r.model.family, Family::kLlama);
  EXPECT_EQ(r.model.vocab_padded, 256);
  EXPECT_EQ(r.model.head_size, 16);
  EXPECT_EQ(r.model.activation, Activation::kSwiGlu);
  EXPECT_FALSE(r.model.tied_output);
  EXPECT_FALSE(r.model.linear_biases);
  EXPECT_EQ(r.model.norm_eps.ToString(), "1e-5");
  EXPECT_EQ(r.model.rope_base, Decimal::Of(10000));
  ASSERT_EQ(r.data.sources.size(), 1u);
  EXPECT_EQ(r.data.sources[0].path, "/recipes/corpus");
  ASSERT_EQ(r.data.split.size(), 3u);
  EXPECT_EQ(r.data.split[0], Decimal::Of(99));
  EXPECT_EQ(r.train.micro_batch, 8);
  EXPECT_EQ(r.optimizer.schedule, ScheduleKind::kCosine);
  EXPECT_EQ(r.optimizer.decay_steps, 90);
  EXPECT_EQ(r.optimizer.lr.ToFloat(), 0.003f);
  EXPECT_EQ(r.invariance.data_lanes, 1);
  EXPECT_EQ(r.memory.recompute, Recompute::kNone);
}

TEST(RecipeTest, FamilyDecidesDefaults) {
  const Result<Recipe> r = Parse(kGpt2);
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(r->model.intermediate, 256);
  EXPECT_EQ(r->model.kv_heads, 4);
  EXPECT_EQ(r->model.activation, Activation::kGeluTanh);
  EXPECT_TRUE(r->model.tied_output);
  EXPECT_TRUE(r->model.linear_biases);
  ASSERT_EQ(r->data.sources.size(), 2u);
  EXPECT_EQ(r->data.sources[0].path, "/recipes/a");
  EXPECT_EQ(r->data.sources[1].path, "/x/b");
  EXPECT_EQ(r->data.sources[1].weight.ToDouble(), 0.5);
}

// The parser's binary64 would round 60 digits; the recipe keeps them.
TEST(RecipeTest, DecimalsKeepTheirDigits) {
  const std::string digits = "0.00299999999999999999999999999999999999999999999999999999";
  const Recipe exact = *Parse(Replaced(kTiny, "0.003", digits));
  EXPECT_NE(exact.optimizer.lr, Tiny().optimizer.lr);
  EXPECT_EQ(exact.optimizer.lr, Decimal::Parse(digits).value());
  EXPECT_NE(RecipeDigest(exact), RecipeDigest(Tiny()));
  for (const char* same : {"3e-3", "0.0030", "3_0.0e-4", "+0.003"})
    EXPECT_EQ(Parse(Replaced(kTiny, "0.003", same)).value().optimizer.lr, Tiny().optimizer.lr) << same;
  // Columns count code points: the digits after an umlaut are found all the same.
  const Recipe blend =
      *Parse(kGpt2, {"data.sources=[{path = \"b\xC3\xBC\xC3\xBC\xC3\xBC\", weight = 0.125}]"});
  EXPECT_EQ(blend.data.sources[0].weight.ToString(), "125e-3");
}

TEST(RecipeTest, Overrides) {
  const Recipe r =
      Tiny({"train.steps=20", "optimizer.warmup_steps=2", "optimizer.schedule=wsd", "optimizer.decay_steps=5",
            "data.path=here", "model.tied_output=true", "train.steps=30"});
  EXPECT_EQ(r.train.steps, 30);
  EXPECT_EQ(r.optimizer.schedule, ScheduleKind::kWarmupStableDecay);
  EXPECT_EQ(r.data.sources[0].path, (std::filesystem::current_path() / "here").string());
  EXPECT_TRUE(r.model.tied_output);
  // A path given on the command line takes the place of the file's sources.
  EXPECT_EQ(Parse(kGpt2, {"data.path=/p/q"}).value().data.sources.size(), 1u);
}

TEST(RecipeTest, RefusesOverrides) {
  EXPECT_EQ(Refusal(kTiny, {"train.steps"}),
            "--set train.steps: expected --set table.field=value, such as --set train.steps=20");
  EXPECT_EQ(Refusal(kTiny, {"train.stepps=3"}),
            "--set train.stepps=3: unknown field train.stepps; did you mean train.steps?");
  EXPECT_EQ(Refusal(kTiny, {"train.steps=abc"}).substr(0, 43), "--set train.steps=abc: not valid TOML: Erro");
  EXPECT_EQ(Refusal(kTiny, {"train.steps=0"}),
            "--set train.steps=0: train.steps is 0 (an integer); expected an integer from 1 to 4294967295");
  EXPECT_THAT(Refusal(kTiny, {"train.steps=5\ntrain = 3"}), HasSubstr("expected one value"));
  EXPECT_THAT(
      Refusal(kTiny, {"train.steps=4294967295", "train.global_batch=16777216", "model.sequence=16777216"}),
      HasSubstr("--set train.steps=4294967295: train.steps 4294967295 * train.global_batch 16777216 * "
                "model.sequence 16777216 is 1.21e+24 tokens; at most 4e+18 are accepted"));
  EXPECT_THAT(Refusal(kTiny, {"optimizer.schedule=cosin"}), HasSubstr("did you mean \"cosine\"?"));
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

TEST(RecipeTest, RefusesWithPlaceAndRemedy) {
  const std::vector<Wrong> wrongs = {
      {"steps = 100", "stepz = 100", "tiny.toml:15: unknown field train.stepz; did you mean train.steps?"},
      {"steps = 100", "lr = 100", "tiny.toml:15: unknown field train.lr; did you mean optimizer.lr?"},
      {"[train]", "[trian]", "tiny.toml:14: unknown table [trian]; did you mean [train]?"},
      {"[model]", "steps = 3\n[model]",
       "tiny.toml:1: steps stands outside of any table; did you mean train.steps?"},
      {"[data]", "train = 3\n[data]", "unknown field model.train"},
      {"steps = 100", "steps = \"many\"",
       "tiny.toml:15: train.steps is \"many\" (text); expected an integer from 1 to 4294967295"},
      {"steps = 100", "steps = 1e2", "train.steps is 1e2 (a decimal number); expected an integer"},
      {"steps = 100", "steps = 99999999999", "train.steps is 99999999999 (an integer); expected"},
      {"steps = 100", "steps = 99999999999999999999", "not valid TOML"},
      {"steps = 100\n", "", "tiny.toml: train.steps is missing from [train]; expected an integer"},
      {"lr = 0.003", "lr = 0.0", "optimizer.lr is 0.0 (a decimal number); expected a decimal number above 0"},
      {"lr = 0.003", "lr = inf", "optimizer.lr is inf"},
      {"lr = 0.003", "lr = nan", "optimizer.lr is nan"},
      {"lr = 0.003", "lr = 0x10", "optimizer.lr is 0x10"},
      {"lr = 0.003", "lr = 1e-60", "is zero in binary32"},
      {"lr = 0.003", "lr = 0.003\nlr = 0.003", "tiny.toml:20: not valid TOML"},
      {"lr = 0.003", "lr = 0.003\nbeta2 = 1",
       "optimizer.beta2 is 1 (an integer); expected a decimal number from 0"},
      {"lr = 0.003", "lr = 0.003\nbeta2 = 0.9999999999", "is 1 in binary32"},
      {"lr = 0.003", "lr = 0.003\nmin_lr = 0.0031", "optimizer.min_lr 31e-4 is more than optimizer.lr 3e-3"},
      {"lr = 0.003", "lr = 0.003\nschedule = \"wsd\"", "optimizer.decay_steps is missing"},
      {"lr = 0.003", "lr = 0.003\ndecay_steps = 91", "more than the 90 steps after the warm-up"},
      {"lr = 0.003", "lr = 0.003\nschedule = \"constant\"\nmin_lr = 1e-5", "has no use with"},
      {"warmup_steps = 10", "warmup_steps = 101", "optimizer.warmup_steps 101 is more than train.steps 100"},
      {"\"llama\"", "\"lama\"",
       "tiny.toml:2: model.family is \"lama\" (text); expected one of \"llama\", \"gpt2\"; did you mean "
       "\"llama\"?"},
      {"\"llama\"", "\"gpt2\"",
       "tiny.toml:7: model.kv_heads is 2; family \"gpt2\" has as many as heads, which are 4"},
      {"kv_heads = 2", "kv_heads = 3", "accepted are 1, 2, 4"},
      {"heads = 4", "heads = 5", "tiny.toml:6: model.hidden 64 is not a multiple of model.heads 5"},
      {"heads = 4", "heads = 64", "model.head_size 1 is odd; rotary positions need 2"},
      {"intermediate = 192\n", "", "model.intermediate is missing"},
      {"vocab = 256", "vocab = 256\nvocab_padded = 255", "is less than model.vocab 256"},
      {"vocab = 256", "vocab = 256\nactivation = \"gelu\"",
       "does not exist in family \"llama\"; expected \"swiglu\""},
      {"vocab = 256", "vocab = 256\ndropout = 0.1", "dropout is not built yet"},
      {"path = \"corpus\"", "", "[data] names no text to train on"},
      {"path = \"corpus\"", "path = \"\"", "data.path is \"\" (text); expected a path"},
      {"path = \"corpus\"", "path = \"a\\u0000b\"", "data.path is"},
      {"path = \"corpus\"", "path = \"a\"\nsources = [{path = \"b\", weight = 1}]",
       "remove data.path or data.sources"},
      {"path = \"corpus\"", "sources = []", "data.sources is [] (a list)"},
      {"path = \"corpus\"", "sources = [{path = \"b\"}]", "expected a list of 1 to 1024 sources"},
      {"path = \"corpus\"", "sources = [{path = \"b\", weight = 0}]", "data.sources is 0"},
      {"path = \"corpus\"", "sources = [{path = \"b\", wait = 1}]", "expected a list of 1 to 1024 sources"},
      {"path = \"corpus\"", "path = \"a\"\nsplit = \"99,1\"",
       "data.split is \"99,1\" (text); expected three shares"},
      {"path = \"corpus\"", "path = \"a\"\nsplit = \"99,1,0,\"", "expected three shares"},
      {"path = \"corpus\"", "path = \"a\"\nsplit = \"0,1,0\"", "of training, must be above 0"},
      {"path = \"corpus\"", "path = \"a\"\nsplit = \"-1,1,3\"", "expected three shares"},
      {"global_batch = 12", "global_batch = 12\nmicro_batch = 13",
       "micro_batch 13 is more than train.global_batch 12"},
      {"global_batch = 12", "global_batch = 12\nseed = -1", "from 0 to 9223372036854775807"},
      {"[train]", "[layout]\nexpert = 2\n[train]",
       "tiny.toml:15: layout.expert is 2; only 1 is accepted so far"},
      {"[train]", "[invariance]\nexpert_lanes = 2\n[train]", "mixtures of experts are not built yet"},
      {"[train]", "[invariance]\ndata_lanes = 5\n[train]",
       "tiny.toml:15: invariance.data_lanes 5 does not divide train.global_batch 12; set global_batch to 10 "
       "or 15, "
       "or data_lanes to one of 1, 2, 3, 4, 6, 12"},
      {"[train]", "[invariance]\ntensor_lanes = 4\n[train]",
       "tensor_lanes 4 does not divide model.kv_heads 2; set model.kv_heads to 4, or tensor_lanes to one of "
       "1, 2"},
      {"[train]", "[invariance]\ntensor_lanes = 2\ncontext_lanes = 96\n[train]",
       "does not divide model.sequence 128; set sequence to 192, or the product to one of 1, 2, 4"},
      {"vocab = 256", "vocab = \"\xff\"", "not valid TOML"},
  };
  for (const Wrong& wrong : wrongs)
    EXPECT_THAT(Refusal(Replaced(kTiny, wrong.from, wrong.to)), HasSubstr(wrong.message)) << wrong.to;
}

TEST(RecipeTest, ReportsAllProblemsInTheOrderOfTheFile) {
  std::string text = Replaced(kTiny, "layers", "leyers");
  text = Replaced(text, "lr = 0.003", "lr = true");
  EXPECT_EQ(Refusal(text),
            "tiny.toml:5: unknown field model.leyers; did you mean model.layers?\n"
            "tiny.toml:19: optimizer.lr is true (a truth value); expected a decimal number above 0 and at "
            "most 1000\n"
            "tiny.toml: model.layers is missing from [model]; expected an integer from 1 to 4096 (number of "
            "blocks, "
            "each attention and MLP)");
}

TEST(RecipeTest, WidthsPadTheVocabulary) {
  const Recipe r = Tiny({"model.vocab=257", "invariance.tensor_lanes=2"});
  EXPECT_EQ(r.model.vocab_padded, 258);
}

TEST(RecipeTest, CanonicalTextReadsBack) {
  for (const char* text : {kTiny, kGpt2}) {
    const Recipe recipe = *Parse(text);
    const std::string canonical = CanonicalText(recipe);
    const Result<Recipe> again = ParseRecipe(canonical, "canonical", "/elsewhere");
    ASSERT_TRUE(again.ok()) << again.status().message() << canonical;
    EXPECT_EQ(CanonicalText(*again), canonical);
    EXPECT_EQ(RecipeDigest(*again), RecipeDigest(recipe));
    for (const Field& field : Schema()) {
      if (field.key() == "data.path") continue;  // told by data.sources
      EXPECT_THAT(canonical, HasSubstr(fmt::format("\n{} = ", field.name))) << field.key();
    }
  }
  const Recipe decimals =
      Tiny({"optimizer.lr=950e-4", "optimizer.eps=0.0000010", "model.rope_base=5e5", "model.norm_eps=0.00012",
            "optimizer.max_norm=12.50", "optimizer.min_lr=1e-7"});
  for (const char* line : {"lr = 0.095\n", "eps = 1e-6\n", "rope_base = 500000\n", "norm_eps = 0.00012\n",
                           "max_norm = 12.5\n", "min_lr = 1e-7\n", "beta2 = 0.95\n", "dropout = 0\n"})
    EXPECT_THAT(CanonicalText(decimals), HasSubstr(fmt::format("\n{}", line)));
  const Recipe odd = Tiny({"data.path=/a \"b\"\\c\x01"});
  EXPECT_EQ(ParseRecipe(CanonicalText(odd), "x", "/").value().data.sources[0].path, "/a \"b\"\\c\x01");
}

// Each field that shapes the trajectory changes the digest, and no other does.
TEST(RecipeTest, DigestHoldsWhatShapesTheTrajectory) {
  const std::vector<std::string> shaping = {"model.vocab=255",
                                            "model.vocab_padded=300",
                                            "model.hidden=72",
                                            "model.layers=3",
                                            "model.heads=8",
                                            "model.kv_heads=1",
                                            "model.head_size=8",
                                            "model.intermediate=128",
                                            "model.sequence=64",
                                            "model.norm_eps=1e-6",
                                            "model.rope_base=500000",
                                            "model.tied_output=true",
                                            "model.linear_biases=true",
                                            "model.init_std=0.01",
                                            "data.sources=[{path=\"a\",weight=1},{path=\"b\",weight=2}]",
                                            "data.split=98,2,0",
                                            "data.seed=1",
                                            "train.steps=101",
                                            "train.global_batch=24",
                                            "train.seed=1",
                                            "optimizer.lr=0.001",
                                            "optimizer.min_lr=0.001",
                                            "optimizer.schedule=constant",
                                            "optimizer.warmup_steps=11",
                                            "optimizer.decay_steps=80",
                                            "optimizer.beta1=0.8",
                                            "optimizer.beta2=0.99",
                                            "optimizer.eps=1e-6",
                                            "optimizer.weight_decay=0",
                                            "optimizer.max_norm=0",
                                            "invariance.data_lanes=2",
                                            "invariance.tensor_lanes=2",
                                            "invariance.context_lanes=2"};
  const std::vector<std::string> free = {"data.path=elsewhere",
                                         "data.tokenizer=bytes",
                                         "data.validation=v",
                                         "train.micro_batch=3",
                                         "train.evaluate_every=7",
                                         "train.evaluate_samples=7",
                                         "train.checkpoint_every=7",
                                         "train.keep_checkpoints=7",
                                         "train.log_every=7",
                                         "memory.recompute=layer",
                                         "layout.data=2",
                                         "layout.tensor=2",
                                         "layout.pipeline=2",
                                         "layout.chunks=2"};
  std::set<std::string> digests = {RecipeDigest(Tiny()).hex()};
  std::set<std::string> covered = {"model.family",  "model.activation",
                                   "model.dropout", "invariance.expert_lanes",
                                   "layout.expert", "layout.context"};  // cannot be changed alone, or at all
  for (const std::string& set : shaping) {
    EXPECT_TRUE(digests.insert(RecipeDigest(Tiny({set})).hex()).second) << set;
    covered.insert(set.substr(0, set.find('=')));
  }
  for (const std::string& set : free) {
    EXPECT_EQ(RecipeDigest(Tiny({set})).hex(), RecipeDigest(Tiny()).hex()) << set;
    covered.insert(set.substr(0, set.find('=')));
  }
  for (const Field& field : Schema()) EXPECT_EQ(covered.count(field.key()), 1u) << field.key();
}

// A change of this digest makes every earlier checkpoint foreign.
TEST(RecipeTest, DigestIsFixed) {
  EXPECT_EQ(ShapingText(Tiny()).substr(0, 40), "profile = \"fma-1\"\n\n[model]\nfamily = \"lla");
  EXPECT_EQ(RecipeDigest(Tiny()).hex(), "d8935432924f545413fe2812c1c5b3fa");
}

TEST(RecipeTest, HostileText) {
  EXPECT_THAT(Refusal(std::string(300000, '#')), HasSubstr("a recipe has at most 262144"));
  EXPECT_THAT(Refusal(std::string(200000, '[')), HasSubstr("not valid TOML"));
  EXPECT_THAT(Refusal("a = " + std::string(100000, '[') + std::string(100000, ']')),
              HasSubstr("not valid TOML"));
  EXPECT_THAT(Refusal(std::string("\0\0\0\0", 4)), HasSubstr("not valid TOML"));
  EXPECT_THAT(Refusal(""), HasSubstr("model.family is missing"));
  EXPECT_THAT(Refusal("\xEF\xBB\xBF[model]\nfamily = 3"),
              HasSubstr("tiny.toml:2: model.family is 3 (an integer)"));
  EXPECT_THAT(Refusal("[model]\nfamily\xC2\xA0= 3"),
              HasSubstr("tiny.toml:2: not valid TOML: a character beyond"));
  EXPECT_THAT(Refusal("\xEF\xBB\xB7"), HasSubstr("tiny.toml:1: not valid TOML: a character beyond ASCII"));
  EXPECT_THAT(Refusal("[model]\r\nfamily = 3\r\n"), HasSubstr("tiny.toml:2: model.family is 3 (an integer)"));
  EXPECT_THAT(Refusal("[model.family.deeper]\n"), HasSubstr("model.family is"));
  EXPECT_THAT(Refusal("[[model]]\n"), HasSubstr("model is a list; expected the table [model]"));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += fmt::format("x{} = 1\n", i);
  EXPECT_THAT(Refusal(many), HasSubstr("and 5001 more"));
  EXPECT_THAT(Refusal(std::string(100000, 'a') + " = 1"), HasSubstr("stands outside of any table"));
  EXPECT_THAT(Refusal(Replaced(kTiny, "0.003", "0." + std::string(5000, '3'))), HasSubstr("tiny.toml:19"));
  EXPECT_THAT(Refusal(Replaced(kTiny, "0.003", "1e-999999999999")), HasSubstr("tiny.toml:19"));
}

TEST(RecipeTest, FileErrors) {
  const Result<Recipe> missing = LoadRecipe("/nonexistent/recipe.toml");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(LoadRecipe("/").ok());
}

TEST(RecipeTest, DocumentationPageIsCurrent) {
  const std::string path = SAMESTEP_SOURCE_DIR "/docs/guide/recipe.md";
  const Result<std::string> page = ReadFile(path);
  ASSERT_TRUE(page.ok()) << page.status().message();
  EXPECT_EQ(*page, RecipeDocumentation()) << "run `samestep recipe docs > docs/guide/recipe.md`";
}

TEST(NearestNameTest, FindsTypingErrorsOnly) {
  const std::vector<std::string_view> names = {"steps", "global_batch", "lr", "beta1", "beta2"};
  EXPECT_EQ(NearestName("golbal_batch", names), "global_batch");
  EXPECT_EQ(NearestName("step", names), "steps");
  EXPECT_EQ(NearestName("beta3", names), "beta1");
  EXPECT_EQ(NearestName("l", names), "");
  EXPECT_EQ(NearestName("something", names), "");
  EXPECT_EQ(NearestName("", names), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace samestep
