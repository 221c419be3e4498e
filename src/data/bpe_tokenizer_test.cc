#include "data/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace samestep {
namespace {

using Json = nlohmann::json;

std::string Folder() { return SAMESTEP_TEST_DATA "/tokenizers/"; }

Json Base(const std::string& name) { return Json::parse(ReadFile(Folder() + name + ".json").value()); }

std::shared_ptr<const Tokenizer> Load(const Json& json) {
  Result<std::shared_ptr<const Tokenizer>> tokenizer = ParseHuggingFaceTokenizer(json.dump(), "t.json", {});
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.value();
}

std::string Fnv(const std::vector<int32_t>& ids) {
  uint64_t digest = 0xCBF29CE484222325u;
  for (const int32_t id : ids) digest = (digest ^ static_cast<uint64_t>(id)) * 0x100000001B3u;
  return fmt::format("{:016x}", digest);
}

// tests/data/tokenizers/vectors.json is what PyPI's tokenizers makes of texts that are hard to cut.
TEST(BpeTokenizer, SameIdsAsHuggingFace) {
  const Json vectors = Base("vectors");
  ASSERT_GT(vectors["variants"].size(), 20u);
  for (const Json& variant : vectors["variants"]) {
    Json json = Base(variant["base"]);
    json.merge_patch(variant["patch"]);
    const auto tokenizer = Load(json);
    const std::unique_ptr<Encoder> encoder = tokenizer->NewEncoder();
    for (int round = 0; round < 2; ++round) {  // the second from the cache
      for (size_t i = 0; i < vectors["texts"].size(); ++i) {
        std::vector<int32_t> ids;
        ASSERT_TRUE(encoder->Encode(vectors["texts"][i].get<std::string>(), ids).ok());
        EXPECT_EQ(Json(Fnv(ids)), variant["ids"][i])
            << variant["name"] << ": " << vectors["texts"][i] << Json(ids);
      }
    }
  }
}

TEST(BpeTokenizer, ByteLevelDecodesToTheText) {
  const Json vectors = Base("vectors");
  Json json = Base("bytes");
  json["pre_tokenizer"]["add_prefix_space"] = false;
  const auto tokenizer = Load(json);
  for (const Json& text : vectors["texts"]) {
    EXPECT_EQ(Json(tokenizer->Decode(tokenizer->Encode(text.get<std::string>()).value()).value()), text);
  }
}

TEST(BpeTokenizer, Gpt2FilesAreTheSameAsTheirTokenizerJson) {
  const auto pair = OpenTokenizer(Folder() + "gpt2").value();
  const auto json = Load(Base("bytes"));
  const Json vectors = Base("vectors");
  for (const Json& text : vectors["texts"]) {
    EXPECT_EQ(pair->Encode(text.get<std::string>()).value(), json->Encode(text.get<std::string>()).value());
  }
  EXPECT_EQ(pair->vocab_size(), json->vocab_size());
}

TEST(BpeTokenizer, EndOfDocumentIsFoundOrNamed) {
  const auto open = [](const std::string& eod) {
    return OpenTokenizer(Folder() + "chars.json", {.eod = eod});
  };
  EXPECT_EQ(open("").value()->eod(), 1);  // </s>
  EXPECT_EQ(open("<unk>").value()->eod(), 0);
  EXPECT_EQ(open("<nope>").status().code(), StatusCode::kUsage);
  EXPECT_EQ(OpenTokenizer(Folder() + "bytes.json").value()->eod(), -1);
}

TEST(BpeTokenizer, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = OpenTokenizer(Folder() + "bytes.json").value();
  for (const char* text :
       {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xc0\x80", "ab\xe2\x82"}) {
    const Result<std::vector<int32_t>> ids = tokenizer->Encode(text);
    ASSERT_FALSE(ids.ok());
    EXPECT_NE(ids.status().message().find("byte 2 "), std::string::npos) << ids.status().message();
  }
}

// Brackets in brackets, where they would be walked: refused, and the stack holds.
TEST(BpeTokenizer, DeepNestingIsRefused) {
  const auto nested = [](int levels, const std::string& open, const std::string& inner,
                         const std::string& close) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    text += inner;
    for (int i = 0; i < levels; ++i) text += close;
    return text;
  };
  const auto parse = [](const std::string& field, const std::string& value) {
    Json json = Base("bytes");
    json[field] = "VALUE";
    std::string text = json.dump();
    text.replace(text.find("\"VALUE\""), 7, value);
    return ParseHuggingFaceTokenizer(text, "t.json", {}).status();
  };
  const std::string normalizers = R"({"type":"Sequence","normalizers":[)";
  EXPECT_TRUE(parse("normalizer", nested(30, normalizers, R"({"type":"NFC"})", "]}")).ok());
  EXPECT_NE(parse("normalizer", nested(100000, normalizers, R"({"type":"NFC"})", "]}")).message().find("64"),
            std::string::npos);
  EXPECT_FALSE(parse("decoder", nested(100000, R"({"type":"Sequence","decoders":[)", "", "]}")).ok());
  EXPECT_FALSE(parse("version", nested(100000, "[", "", "]")).ok());
  EXPECT_FALSE(parse("model", R"({"vocab":{},"merges":[)" + nested(100000, "[", "", "]") + "]}").ok());
  // Brackets within strings do not count.
  EXPECT_TRUE(parse("comment", "\"\\\"" + std::string(1000, '[') + "\"").ok());
}

// Each of these changes what a text becomes; none may pass unnoticed.
TEST(BpeTokenizer, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"truncation":{"max_length":4}})", "truncation"},
      {R"({"padding":{"pad_id":4}})", "padding"},
      {R"({"version":"2.0"})", "2.0"},
      {R"({"normalizer":{"type":"NFKC"}})", "NFKC"},
      {R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}})",
       "Lowercase"},
      {R"({"pre_tokenizer":{"type":"BertPreTokenizer"}})", "BertPreTokenizer"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false}})",
       "group"},
      {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},"behavior":"Sideways","invert":false}})",
       "Sideways"},
      {R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":false},
          {"type":"Digits","individual_digits":true}]}})",
       "after ByteLevel"},
      {R"({"model":{"type":"Unigram"}})", "Unigram"},
      {R"({"model":{"dropout":0.1}})", "dropout"},
      {R"({"model":{"continuing_subword_prefix":"##"}})", "continuing_subword_prefix"},
      {R"({"model":{"end_of_word_suffix":"</w>"}})", "end_of_word_suffix"},
      {R"({"model":{"unk_token":"<nope>"}})", "<nope>"},
      {R"({"model":{"merges":["a b c"]}})", "merge"},
      {R"({"model":{"merges":[["a","xyzzy"]]}})", "xyzzy"},
      {R"({"model":{"merges":[["a"]]}})", "merge"},
      {R"({"model":{"vocab":{"a":-1}}})", "id -1"},
      {R"({"model":{"vocab":{"a":1.5}}})", "id 1.5"},
      {R"({"model":{"vocab":{"qqq":5}}})", "id 5"},
      {R"({"model":{"vocab":{"a":4000000000}}})", "4000000000"},
      {R"({"model":{"vocab":[]}})", "not a"},
      {R"({"model":5})", "not a"},
      {R"({"added_tokens":[{"id":1000,"content":"x y","single_word":true,"lstrip":false,"rstrip":false,
          "normalized":false,"special":true}]})",
       "single_word"},
      {R"({"added_tokens":[{"id":2000,"content":"x y","single_word":false,"lstrip":false,"rstrip":false,
          "normalized":false,"special":true}]})",
       "2000"},
      {R"({"pre_tokenizer":{"type":"Metaspace","replacement":""}})", "Metaspace"},
      {R"({"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"x"}})", "scheme"},
  };
  for (const auto& [patch, message] : cases) {
    Json json = Base("bytes");
    const Json change = Json::parse(patch);
    // The parts of the model are replaced one by one, other parts in whole.
    for (const auto& [key, value] : change.items()) {
      if (key == "model" && value.is_object()) {
        for (const auto& [field, v] : value.items()) {
          if (field == "vocab" && v.is_object()) {
            json["model"]["vocab"].update(v);
          } else {
            json["model"][field] = v;
          }
        }
      } else {
        json[key] = value;
      }
    }
    const auto result = ParseHuggingFaceTokenizer(json.dump(), "t.json", {});
    ASSERT_FALSE(result.ok()) << patch;
    EXPECT_NE(result.status().message().find(message), std::string::npos)
        << patch << " gives " << result.status().message();
  }
  for (const char* text : {"", "{", "[]", "5", "null", "{\"model\":{}}"}) {
    EXPECT_FALSE(ParseHuggingFaceTokenizer(text, "t.json", {}).ok()) << text;
  }
}

// A piece without any place to cut must not take quadratic time, merged (ab) or not (x).
TEST(BpeTokenizer, LongPiecesTakeNoQuadraticTime) {
  const auto tokenizer = OpenTokenizer(Folder() + "bytes.json").value();
  for (const std::string unit : {"he", "x", " ", "\xcc\x81", "\xe4\xb8\xad"}) {
    std::string text;
    while (text.size() < 1000000) text += unit;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = tokenizer->Encode(text).value();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 20);  // quadratic: hours
    EXPECT_EQ(tokenizer->Decode(ids).value(), text);
  }
}

TEST(BpeTokenizer, APatternThatGoesBackAndForthIsStopped) {
  Json json = Base("bytes");
  json["pre_tokenizer"] = Json::parse(
      R"({"type":"Sequence","pretokenizers":[
          {"type":"Split","pattern":{"Regex":"\\s*\\s*\\s*x"},"behavior":"Isolated","invert":false},
          {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})");
  const auto tokenizer = Load(json);
  EXPECT_TRUE(tokenizer->Encode("a  x  b").ok());
  const Result<std::vector<int32_t>> ids = tokenizer->Encode(std::string(20000, ' '));
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().message().find("too many steps"), std::string::npos);
}

TEST(BpeTokenizer, WithoutDecoderTokensStayTokens) {
  Json json = Base("bytes");
  json["decoder"] = nullptr;
  EXPECT_FALSE(Load(json)->Decode(std::vector<int32_t>{1}).ok());
  json["decoder"] = {{"type", "WordPiece"}};
  EXPECT_NE(Load(json)->Decode(std::vector<int32_t>{1}).status().message().find("WordPiece"),
            std::string::npos);
  EXPECT_FALSE(Load(Base("bytes"))->Decode(std::vector<int32_t>{1 << 20}).ok());
  EXPECT_FALSE(Load(Base("bytes"))->Decode(std::vector<int32_t>{-1}).ok());
}

TEST(BpeTokenizer, FoldersWithoutTokenizerAreNamed) {
  EXPECT_EQ(OpenTokenizer(SAMESTEP_TEST_DATA).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenTokenizer(Folder() + "vectors.json").status().code(), StatusCode::kInvalid);
}

}  // namespace
}  // namespace samestep
