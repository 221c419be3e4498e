// The recorder: an observer that turns calls into events.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "kernels/registry.h"
#include "trace/capture.h"
#include "trace/recorder.h"
#include "trace/recorder/contents.h"
#include "trace/stream.h"

namespace samestep {
namespace {

constexpr size_t kEventsABlock = size_t{1} << 15;

struct TraceOptions {
  std::string folder;
  Level level = Level::kKernel;
  Selection iterations, ranks;
  CaptureRules capture;
};

std::string Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

Result<TraceOptions> OptionsFromEnvironment() {
  TraceOptions options;
  options.folder = Variable("SAMESTEP_TRACE");
  if (const std::string text = Variable("SAMESTEP_LEVEL"); !text.empty()) {
    const auto level = LevelNamed(text);
    if (!level) {
      return UsageError("SAMESTEP_LEVEL: \"{}\"; expected iteration, phase, module, kernel or kernel-reread",
                        text);
    }
    options.level = *level;
  }
  if (const std::string text = Variable("SAMESTEP_ITERATIONS"); !text.empty()) {
    SAMESTEP_ASSIGN_OR_RETURN(options.iterations, Selection::Parse(text, "SAMESTEP_ITERATIONS"));
  }
  if (const std::string text = Variable("SAMESTEP_RANKS"); !text.empty()) {
    SAMESTEP_ASSIGN_OR_RETURN(options.ranks, Selection::Parse(text, "SAMESTEP_RANKS"));
  }
  SAMESTEP_ASSIGN_OR_RETURN(options.capture, CaptureRules::Parse(Variable("SAMESTEP_CAPTURE")));
  if (!options.capture.empty() && options.level < Level::kKernel) {
    return UsageError(
        "SAMESTEP_CAPTURE keeps the bytes of calls, which SAMESTEP_LEVEL={} does not record; say "
        "SAMESTEP_LEVEL=kernel",
        LevelName(options.level));
  }
  return options;
}

class TraceRecorder : public Recorder {
 public:
  TraceRecorder(TraceOptions options, TraceWriter writer)
      : options_(std::move(options)), writer_(std::move(writer)), roll_ups_(options_.level) {
    segment_.key = {0, true};
    segment_.definitions = &writer_.definitions();
    recording_ = options_.iterations.Has(0);
  }
  ~TraceRecorder() override = default;

  Status status() const override { return status_; }
  uint64_t bytes_written() const override { return writer_.bytes(); }

  Status Finish() override {
    EndSegment();
    if (status_.ok() && !finished_) status_ = writer_.Finish();
    if (!finished_ && !options_.capture.empty() && !captured_) {
      fmt::print(stderr,
                 "samestep: warning: SAMESTEP_CAPTURE matched no call; `samestep kernels` lists the kernels, "
                 "`samestep trace dump` the modules and iterations of a trace\n");
    }
    finished_ = true;
    return status_;
  }

  void OnBeginIteration(int64_t iteration) override {
    EndSegment();
    BeginSegment({iteration, false});
  }

  void OnEndIteration(int64_t iteration) override {
    EndSegment();
    BeginSegment({iteration, true});
  }

  void BeforeCall(const Call& call) override {
    if (!Records(Level::kPhase)) return;
    StartEvent(EventKind::kCall, call.kernel().name, call.kernel().version);
    for (int i = 0; i < call.attribute_count(); ++i) AddAttribute(call.attribute(i));
    capture_.reset();
    if (!options_.capture.empty()) PlanCapture(call);
    for (int i = 0; i < call.argument_count(); ++i) {
      const Argument& argument = call.argument(i);
      if (!argument.view.present() || argument.access == Access::kWrite) continue;
      AddInput(RoleOf(call, i), argument.view);
    }
  }

  void AfterCall(const Call& call) override {
    if (!Records(Level::kPhase)) return;
    for (int i = 0; i < call.argument_count(); ++i) {
      const Argument& argument = call.argument(i);
      if (argument.view.present() && argument.access != Access::kRead) contents_.Overwrite(argument.view);
    }
    for (int i = 0; i < call.argument_count(); ++i) {
      const Argument& argument = call.argument(i);
      if (argument.view.present() && argument.access != Access::kRead)
        AddOutput(RoleOf(call, i), argument.view);
    }
    EndEvent();
  }

  void OnTensor(std::string_view name, const TensorView& view) override {
    if (!Records(Level::kIteration) || !view.present()) return;
    StartEvent(EventKind::kTensor, name, 0);
    contents_.Overwrite(view);  // what no kernel wrote is read anew
    AddOutput("value", view);
    EndEvent();
  }

  void OnValue(std::string_view name, uint64_t bits) override {
    if (!Records(Level::kIteration)) return;
    StartEvent(EventKind::kValue, name, 0);
    values_.push_back(bits);
    EndEvent();
  }

 private:
  bool Records(Level at_least) const { return recording_ && status_.ok() && options_.level >= at_least; }

  static std::string_view RoleOf(const Call& call, int i) {
    return call.kernel().arguments[static_cast<size_t>(i)].role;
  }

  void StartEvent(EventKind kind, std::string_view name, int version) {
    const CallContext& context = CallContext::Current();
    current_ = Definition();
    current_.site.kind = kind;
    current_.site.phase = context.phase;
    current_.site.micro_batch = context.micro_batch;
    current_.site.module = context.module;
    current_.site.name = name;
    current_.site.version = version;
    current_.reread = options_.level == Level::kKernelReread;
    values_.clear();
    slots_.clear();
  }

  void AddAttribute(const Attribute& attribute) {
    current_.site.attributes.push_back({attribute.name, attribute.is_float});
    uint32_t bits;
    std::memcpy(&bits, &attribute.real, 4);
    values_.push_back(attribute.is_float ? bits : static_cast<uint64_t>(attribute.integer));
  }

  void AddInput(std::string_view role, const TensorView& view) {
    const uint64_t slot = next_slot_ + slots_.size();
    const Contents::Known* found = contents_.Find(view);
    const Contents::Known known = found == nullptr ? Contents::Known() : *found;
    const uint64_t distance = found == nullptr ? 0 : slot - known.slot;
    // What changed since is stored beside where it came from, so that a comparison can tell.
    current_.reread = current_.reread || known.changed;
    const bool read = found == nullptr || current_.reread;
    const Fingerprint fingerprint = read ? FingerprintOf(view) : known.fingerprint;
    if (found == nullptr || known.changed) contents_.Remember(view, fingerprint, slot);
    AddTensor(TensorSiteOf(role, false, view), static_cast<uint32_t>(distance), fingerprint, view);
  }

  void AddOutput(std::string_view role, const TensorView& view) {
    const Fingerprint fingerprint = FingerprintOf(view);
    contents_.Remember(view, fingerprint, next_slot_ + slots_.size());
    AddTensor(TensorSiteOf(role, true, view), 0, fingerprint, view);
  }

  void AddTensor(TensorSite site, uint32_t source, const Fingerprint& fingerprint, const TensorView& view) {
    if (capture_) capture_->tensors.push_back({site, PackedBytes(view)});
    current_.site.tensors.push_back(std::move(site));
    current_.sources.push_back(source);
    slots_.push_back(fingerprint);
  }

  void EndEvent() {
    const std::string bytes = DefinitionBytes(current_);
    if (current_.site.kind != EventKind::kCall || options_.level >= Level::kKernel) {
      const uint32_t id = writer_.Define(bytes);
      const Definition& definition = *writer_.definitions()[id];
      roll_ups_.Add(definition, values_, slots_, next_slot_);
      AddEvent(id);
      if (capture_) WriteTheCapture(definition.site);
    } else {
      roll_ups_.Add(Unrecorded(bytes), values_, slots_, next_slot_);
    }
    next_slot_ += slots_.size();
    AddGroups();
    if (segment_.events.size() >= kEventsABlock) Write(nullptr);
  }

  // The definition of a call that only roll-ups speak of.
  const Definition& Unrecorded(const std::string& bytes) {
    const auto [it, is_new] = unrecorded_.try_emplace(bytes);
    if (is_new) {
      it->second = std::move(current_);
      it->second.digest = DigestOf(SiteBytes(it->second.site));
    }
    return it->second;
  }

  void AddEvent(uint32_t definition) {
    segment_.events.push_back({definition, static_cast<uint32_t>(segment_.slots.size()),
                               static_cast<uint32_t>(segment_.values.size())});
    segment_.slots.insert(segment_.slots.end(), slots_.begin(), slots_.end());
    segment_.values.insert(segment_.values.end(), values_.begin(), values_.end());
    ++events_;
  }

  // Roll-ups of modules or phases that have ended, as events of their own.
  void AddGroups() {
    for (const Group& group : roll_ups_.TakeGroups()) {
      Definition definition;
      definition.site = group.site;
      definition.sources.assign(2, 0);
      values_.assign(1, group.calls);
      slots_ = {{group.digests[0].high, group.digests[0].low}, {group.digests[1].high, group.digests[1].low}};
      AddEvent(writer_.Define(DefinitionBytes(definition)));
    }
  }

  void BeginSegment(const SegmentKey& key) {
    segment_.key = key;
    recording_ = options_.iterations.Has(key.iteration);
    occurrences_.clear();
  }

  void EndSegment() {
    roll_ups_.EndGroup();
    AddGroups();
    contents_.Clear();
    next_slot_ = 0;
    if (recording_ && status_.ok() && (events_ > 0 || !segment_.key.after)) {
      RollUp roll_up = roll_ups_.Finish(segment_.key);
      roll_up.events = events_;
      Write(&roll_up);
    }
    events_ = 0;
    segment_.events.clear();
    segment_.slots.clear();
    segment_.values.clear();
  }

  void Write(RollUp* roll_up) {
    if (status_.ok()) status_ = writer_.Write(segment_, roll_up);
    segment_.events.clear();
    segment_.slots.clear();
    segment_.values.clear();
  }

  void PlanCapture(const Call& call) {
    const Site& site = current_.site;
    const int64_t occurrence = occurrences_[Identity(site)]++;
    if (!options_.capture.Match(site.name, site.module, site.phase, segment_.key.iteration, occurrence))
      return;
    uint64_t bytes = 0;
    for (int i = 0; i < call.argument_count(); ++i) {
      const Argument& argument = call.argument(i);
      if (!argument.view.present()) continue;
      const auto one = static_cast<uint64_t>(argument.view.elements() * BitsOf(argument.view.dtype) / 8);
      bytes += argument.access == Access::kUpdate ? 2 * one : one;
    }
    if (captured_bytes_ + bytes > options_.capture.limit()) return;
    captured_bytes_ += bytes;
    capture_.emplace();
  }

  void WriteTheCapture(const Site& site) {
    captured_ = true;
    capture_->key = segment_.key;
    capture_->event = events_ - 1;
    capture_->site = site;
    capture_->values = values_;
    const TraceHeader& header = writer_.header();
    const Status written = WriteCapture(
        CapturePath(options_.folder, header.rank, header.ranks, capture_->key, capture_->event), *capture_);
    if (status_.ok()) status_ = written;
    capture_.reset();
  }

  TraceOptions options_;
  TraceWriter writer_;
  Status status_;
  bool recording_ = false, finished_ = false;
  RollUpBuilder roll_ups_;
  Contents contents_;
  std::unordered_map<std::string, int64_t> occurrences_;  // of the segment, by identity
  Segment segment_;                                       // what is not written yet
  uint64_t next_slot_ = 0;                                // of the segment, across its blocks
  uint32_t events_ = 0;                                   // of the segment
  uint64_t captured_bytes_ = 0;
  std::optional<Capture> capture_;
  bool captured_ = false;  // whether any call ever was
  // The event that is being made.
  Definition current_;
  std::vector<uint64_t> values_;
  std::vector<Fingerprint> slots_;
  std::unordered_map<std::string, Definition> unrecorded_;
};

}  // namespace

Result<std::unique_ptr<Recorder>> MakeRecorder(const TraceHeader& header) {
  if (Variable("SAMESTEP_TRACE").empty()) return std::unique_ptr<Recorder>();
  SAMESTEP_ASSIGN_OR_RETURN(TraceOptions options, OptionsFromEnvironment());
  if (!options.ranks.Has(header.rank)) return std::unique_ptr<Recorder>();
  TraceHeader complete = header;
  complete.level = options.level;
  complete.iterations = options.iterations.ToString();
  complete.recorded_ranks = options.ranks.ToString();
  SAMESTEP_ASSIGN_OR_RETURN(TraceWriter writer, TraceWriter::Create(options.folder, std::move(complete)));
  return std::unique_ptr<Recorder>(std::make_unique<TraceRecorder>(std::move(options), std::move(writer)));
}

}  // namespace samestep
