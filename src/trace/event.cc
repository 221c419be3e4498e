#include "trace/event.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "trace/bytes.h"

namespace samestep {
namespace {

constexpr std::array<std::string_view, 5> kLevels = {"iteration", "phase", "module", "kernel",
                                                     "kernel-reread"};
constexpr std::array<std::string_view, kPhaseCount> kPhases = {
    "data", "forward", "backward", "recompute", "reduce", "optimizer", "checkpoint", "evaluate"};
constexpr std::array<std::string_view, 5> kKinds = {"call", "tensor", "value", "phase", "module"};

// Bounds on what a file may claim, far above what programs have.
constexpr uint64_t kMaxText = 4096;
constexpr uint64_t kMaxTensors = 256;
constexpr uint64_t kMaxAttributes = 256;
constexpr uint64_t kMaxElements = uint64_t{1} << 58;

void PutShape(const Shape& shape, ByteWriter* out) {
  for (int i = 0; i < shape.rank(); ++i) out->Signed(shape[i]);
}

Shape GetShape(int rank, ByteReader* in) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.Append(in->Signed());
  return shape;
}

void PutTensor(const TensorSite& tensor, ByteWriter* out) {
  out->Text(tensor.role);
  const int kind = (tensor.output ? 1 : 0) | static_cast<int>(tensor.placement) << 1;
  out->Fixed(static_cast<uint64_t>(kind), 1).Fixed(static_cast<uint64_t>(tensor.dtype), 1);
  out->Fixed(static_cast<uint64_t>(tensor.shape.rank()), 1);
  PutShape(tensor.shape, out);
  PutShape(tensor.global_shape, out);
  PutShape(tensor.offsets, out);
  if (tensor.placement == Placement::kPartial) {
    out->Signed(tensor.lane_begin).Signed(tensor.lane_end).Signed(tensor.lane_count);
  }
}

bool BoxIsSound(const TensorSite& tensor) {
  uint64_t elements = 1;
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    const int64_t held = tensor.shape[i], all = tensor.global_shape[i], at = tensor.offsets[i];
    if (held < 0 || all < 0 || at < 0 || held > all || at > all - held) return false;
    if (all != 0 && elements > kMaxElements / static_cast<uint64_t>(all)) return false;
    elements *= static_cast<uint64_t>(all);
  }
  return tensor.lane_begin >= 0 && tensor.lane_begin < tensor.lane_end &&
         tensor.lane_end <= tensor.lane_count;
}

TensorSite GetTensor(ByteReader* in) {
  TensorSite tensor;
  tensor.role = in->Text(kMaxText);
  const uint64_t kind = in->Fixed(1), dtype = in->Fixed(1), rank = in->Fixed(1);
  if (kind > 5 || dtype >= static_cast<uint64_t>(kDTypeCount) || rank > Shape::kMaxRank) {
    in->Fail();
    return {};
  }
  tensor.output = (kind & 1) != 0;
  tensor.placement = static_cast<Placement>(kind >> 1);
  tensor.dtype = static_cast<DType>(dtype);
  tensor.shape = GetShape(static_cast<int>(rank), in);
  tensor.global_shape = GetShape(static_cast<int>(rank), in);
  tensor.offsets = GetShape(static_cast<int>(rank), in);
  if (tensor.placement == Placement::kPartial) {
    tensor.lane_begin = static_cast<int32_t>(in->Signed());
    tensor.lane_end = static_cast<int32_t>(in->Signed());
    tensor.lane_count = static_cast<int32_t>(in->Signed());
  }
  if (!BoxIsSound(tensor)) in->Fail();
  return tensor;
}

void PutSite(const Site& site, ByteWriter* out) {
  out->Fixed(static_cast<uint64_t>(site.kind), 1).Fixed(static_cast<uint64_t>(site.phase), 1);
  out->Signed(site.micro_batch).Text(site.module).Text(site.name).Signed(site.version);
  out->Varint(site.attributes.size());
  for (const AttributeSite& a : site.attributes) out->Text(a.name).Fixed(a.is_float ? 1 : 0, 1);
  out->Varint(site.tensors.size());
  for (const TensorSite& tensor : site.tensors) PutTensor(tensor, out);
}

Site GetSite(ByteReader* in) {
  Site site;
  const uint64_t kind = in->Fixed(1), phase = in->Fixed(1);
  if (kind >= kKinds.size() || phase >= kPhaseCount) {
    in->Fail();
    return site;
  }
  site.kind = static_cast<EventKind>(kind);
  site.phase = static_cast<Phase>(phase);
  site.micro_batch = static_cast<int32_t>(in->Signed());
  site.module = in->Text(kMaxText);
  site.name = in->Text(kMaxText);
  site.version = static_cast<int32_t>(in->Signed());
  for (uint64_t n = in->Count(kMaxAttributes); n > 0 && in->ok(); --n) {
    AttributeSite attribute;
    attribute.name = in->Text(kMaxText);
    attribute.is_float = in->Fixed(1) != 0;
    site.attributes.push_back(std::move(attribute));
  }
  for (uint64_t n = in->Count(kMaxTensors); n > 0 && in->ok(); --n) site.tensors.push_back(GetTensor(in));
  return site;
}

}  // namespace

std::string_view LevelName(Level level) { return kLevels[static_cast<size_t>(level)]; }

std::optional<Level> LevelNamed(std::string_view name) {
  for (size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == name) return static_cast<Level>(i);
  }
  return std::nullopt;
}

std::string_view PhaseName(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }
std::string_view KindName(EventKind kind) { return kKinds[static_cast<size_t>(kind)]; }

TensorSite TensorSiteOf(std::string_view role, bool output, const TensorView& view) {
  return {std::string(role), output,         view.dtype,      view.shape,    view.global_shape,
          view.offsets,      view.placement, view.lane_begin, view.lane_end, view.lane_count};
}

std::string Site::Place() const {
  std::string text(PhaseName(phase));
  if (!module.empty()) text += " " + module;
  if (!name.empty()) text += " " + name;
  return text;
}

std::string SegmentKey::ToString() const {
  if (!after) return fmt::format("iteration {}", iteration);
  return iteration == 0 ? "before the first iteration" : fmt::format("after iteration {}", iteration);
}

std::string SiteBytes(const Site& site) {
  ByteWriter out;
  PutSite(site, &out);
  return out.bytes();
}

Result<Site> ParseSite(std::string_view bytes) {
  ByteReader in(bytes);
  Site site = GetSite(&in);
  if (!in.AtEnd()) return InvalidError("a site of {} bytes is not in the form of this schema", bytes.size());
  return site;
}

std::string DefinitionBytes(const Definition& definition) {
  ByteWriter out;
  PutSite(definition.site, &out);
  out.Fixed(definition.reread ? 1 : 0, 1);
  for (uint32_t source : definition.sources) out.Varint(source);
  return out.bytes();
}

Result<Definition> ParseDefinition(std::string_view bytes) {
  ByteReader in(bytes);
  Definition definition;
  definition.site = GetSite(&in);
  definition.reread = in.Fixed(1) != 0;
  for (size_t i = 0; i < definition.site.tensors.size() && in.ok(); ++i) {
    definition.sources.push_back(static_cast<uint32_t>(in.Count(UINT32_MAX)));
  }
  if (!in.AtEnd()) return InvalidError("a site of {} bytes is not in the form of this schema", bytes.size());
  definition.digest = DigestOf(SiteBytes(definition.site));
  return definition;
}

std::string Identity(const Site& site) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", static_cast<int>(site.kind), static_cast<int>(site.phase),
                     site.micro_batch, site.module, site.name);
}

std::vector<int64_t> OccurrencesOf(const Segment& segment) {
  std::unordered_map<std::string, int64_t> counts;
  std::vector<int64_t> occurrences;
  for (size_t e = 0; e < segment.events.size(); ++e)
    occurrences.push_back(counts[Identity(segment.site(e))]++);
  return occurrences;
}

std::string TraceHeader::ToJson() const {
  const nlohmann::json json = {{"schema", schema},
                               {"numerics", numerics},
                               {"recipe_digest", recipe_digest},
                               {"software", software},
                               {"environment", environment},
                               {"layout", layout},
                               {"rank", rank},
                               {"ranks", ranks},
                               {"level", LevelName(level)},
                               {"iterations", iterations},
                               {"recorded_ranks", recorded_ranks},
                               {"generation", generation}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<TraceHeader> TraceHeader::FromJson(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  TraceHeader header;
  if (!json.is_object()) return InvalidError("the header is no JSON object");
  try {
    header.schema = json.at("schema").get<int>();
    if (header.schema != kTraceSchema) {
      return InvalidError("schema {}; this program reads schema {}", header.schema, kTraceSchema);
    }
    json.at("numerics").get_to(header.numerics);
    json.at("recipe_digest").get_to(header.recipe_digest);
    json.at("software").get_to(header.software);
    json.at("environment").get_to(header.environment);
    json.at("layout").get_to(header.layout);
    json.at("rank").get_to(header.rank);
    json.at("ranks").get_to(header.ranks);
    json.at("iterations").get_to(header.iterations);
    json.at("generation").get_to(header.generation);
    header.recorded_ranks = json.value("recorded_ranks", "all");  // not in traces of 0.1
    const auto level = LevelNamed(json.at("level").get<std::string>());
    if (!level) return InvalidError("the header names the unknown level {}", json.at("level").dump());
    header.level = *level;
  } catch (const nlohmann::json::exception& e) {
    return InvalidError("the header is not in the form of schema {}: {}", kTraceSchema, e.what());
  }
  if (header.ranks < 1 || header.rank < 0 || header.rank >= header.ranks || header.generation < 0) {
    return InvalidError("the header names rank {} of {}, generation {}", header.rank, header.ranks,
                        header.generation);
  }
  return header;
}

}  // namespace samestep
