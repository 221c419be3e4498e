#include "comm/mpi_communicator.h"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace samestep {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // of one message: counts of MPI are ints
constexpr size_t kMostValues = kMostBytes / sizeof(uint64_t);
constexpr int kMostTag = 32767;  // what every MPI has
// Stages of a wait. Long messages between processes of a machine move piece by piece, each time that both
// sides look: whoever sleeps early slows them down by an order of magnitude.
constexpr std::chrono::microseconds kSpin{20}, kYield{20'000};
constexpr int64_t kShortestSleepNs = 5'000, kLongestSleepNs = 200'000;
// Processes that wait for one and the same silent peer say so one after the other, so that one message is
// printed before the end reaches the others.
constexpr auto kHeadStart = std::chrono::milliseconds(200);
constexpr int kMostHeadStarts = 50;

// What a group shares with the transfers that it began, which may outlive it.
struct Membership {
  std::vector<int> world_ranks;  // of the group's ranks
  int rank = 0;
  std::chrono::seconds time_limit;
};

int WorldRank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

[[noreturn]] void Fail(const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "samestep: rank {}: {}\n", WorldRank(), message);
  std::fflush(stderr);
  AbortMpi(Status(StatusCode::kIo, "").ExitCode());
}

std::string MpiText(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return std::string(text, static_cast<size_t>(length));
}

void Must(int code, const std::string& operation) {
  if (code != MPI_SUCCESS) Fail(fmt::format("{} failed; MPI says: {}", operation, MpiText(code)));
}

// "rank 3", "ranks 0, 1 and 12 more"
std::string RanksText(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const size_t shown = std::min<size_t>(ranks.size(), 16);
  const std::string list =
      fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<int64_t>(shown), ", "));
  if (ranks.size() > shown) return fmt::format("ranks {} and {} more", list, ranks.size() - shown);
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list);
}

// The pause between two questions to MPI, and the time that a wait has taken.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  // After a question that was answered with no. Pauses longer than a second count as one: this process was
  // stopped, or the machine slept.
  void Pause() {
    const Clock::time_point now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_, std::chrono::seconds(1));
    last_ = now;
    if (waited_ < kSpin) return;
    if (waited_ < kYield) {
      sched_yield();
      return;
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = sleep_ns_};
    nanosleep(&pause, nullptr);
    sleep_ns_ = std::min(sleep_ns_ + sleep_ns_ / 4, kLongestSleepNs);
  }
  Clock::duration waited() const { return waited_; }

 private:
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{};
  int64_t sleep_ns_ = kShortestSleepNs;
};

bool Overdue(const Patience& patience, const Membership& members) {
  return patience.waited() > members.time_limit + kHeadStart * std::min(WorldRank(), kMostHeadStarts);
}

[[noreturn]] void FailForSilence(const Membership& members, const std::string& operation,
                                 const std::vector<int>& peers) {
  Fail(fmt::format(
      "{} was not done after {} s; waiting for {}: stopped, hanging or gone? Start again to go on "
      "from the last checkpoint, or set SAMESTEP_TIMEOUT to more seconds",
      operation, members.time_limit.count(), RanksText(peers)));
}

class Transfers : public Pending::State {
 public:
  Transfers(std::shared_ptr<const Membership> members, int tag) : members_(std::move(members)), tag_(tag) {}
  ~Transfers() override { Wait(); }

  void Receive(const Transfer& transfer, MPI_Comm group) { Begin(transfer, group, false); }
  void Send(const Transfer& transfer, MPI_Comm group) { Begin(transfer, group, true); }

  void Wait() override {
    if (requests_.empty()) return;
    statuses_.resize(requests_.size());
    const int count = static_cast<int>(requests_.size());
    Patience patience;
    for (;;) {
      int done = 0;
      const int code = MPI_Testall(count, requests_.data(), &done, statuses_.data());
      if (code != MPI_SUCCESS) FailTransfer(code);
      if (done) break;
      if (Overdue(patience, *members_)) FailSilence();
      patience.Pause();
    }
    CheckSizes();
    requests_.clear();
  }

 private:
  struct Piece {
    int peer;
    bool send;
    size_t bytes;
  };

  // Empty transfers travel too: a peer that expects another size is found out.
  void Begin(const Transfer& transfer, MPI_Comm group, bool send) {
    size_t done = 0;
    do {
      const size_t bytes = std::min(transfer.bytes - done, kMostBytes);
      char* data = static_cast<char*>(transfer.data) + done;
      requests_.push_back(MPI_REQUEST_NULL);
      pieces_.push_back({transfer.peer, send, bytes});
      const int count = static_cast<int>(bytes);
      const int code = send ? MPI_Isend(data, count, MPI_BYTE, transfer.peer, tag_, group, &requests_.back())
                            : MPI_Irecv(data, count, MPI_BYTE, transfer.peer, tag_, group, &requests_.back());
      if (code != MPI_SUCCESS) Must(code, Text(pieces_.back()));
      done += bytes;
    } while (done < transfer.bytes);
  }

  int World(int peer) const { return members_->world_ranks[static_cast<size_t>(peer)]; }

  std::string Text(const Piece& piece) const {
    return fmt::format("{} {} bytes {} rank {} (tag {})", piece.send ? "sending" : "receiving", piece.bytes,
                       piece.send ? "to" : "from", World(piece.peer), tag_);
  }

  [[noreturn]] void FailTransfer(int code) const {
    if (code == MPI_ERR_IN_STATUS) {
      for (size_t i = 0; i < pieces_.size(); ++i) {
        const int own = statuses_[i].MPI_ERROR;
        if (own != MPI_SUCCESS && own != MPI_ERR_PENDING) Must(own, Text(pieces_[i]));
      }
    }
    Must(code, "a transfer");
    std::abort();
  }

  [[noreturn]] void FailSilence() {
    std::vector<int> peers;
    const Piece* first = nullptr;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      int done = 0;
      MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
      if (done) continue;
      peers.push_back(World(pieces_[i].peer));
      if (first == nullptr) first = &pieces_[i];
    }
    FailForSilence(*members_, first == nullptr ? "a transfer" : Text(*first), peers);
  }

  void CheckSizes() const {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].send) continue;
      int bytes = 0;
      MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
      if (static_cast<size_t>(bytes) == pieces_[i].bytes) continue;
      Fail(fmt::format("{}: only {} came; the ranks do not run the same program", Text(pieces_[i]), bytes));
    }
  }

  std::shared_ptr<const Membership> members_;
  int tag_;
  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;
  std::vector<MPI_Status> statuses_;
};

// Bytes of a group, which count for the groups that it was split from as well.
struct SentBytes {
  uint64_t bytes = 0;
  std::shared_ptr<SentBytes> parent;
};

class MpiCommunicator : public Communicator {
 public:
  // Takes the group over, and frees it unless it is the world.
  MpiCommunicator(MPI_Comm group, std::chrono::seconds time_limit, std::shared_ptr<SentBytes> parent)
      : group_(group), sent_(std::make_shared<SentBytes>()) {
    sent_->parent = std::move(parent);
    Must(MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN), "setting the error handler");
    Must(MPI_Comm_rank(group_, &rank_), "asking for the rank");
    Must(MPI_Comm_size(group_, &size_), "asking for the number of ranks");
    auto members = std::make_shared<Membership>();
    members->time_limit = time_limit;
    members->rank = rank_;
    members->world_ranks = WorldRanks();
    members_ = std::move(members);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    if (group_ != MPI_COMM_WORLD && MpiRuns()) MPI_Comm_free(&group_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  uint64_t bytes_sent() const override { return sent_->bytes; }

  Pending Start(std::span<const Transfer> sends, std::span<const Transfer> receives, int tag) override {
    SAMESTEP_CHECK(tag >= 0 && tag <= kMostTag);
    auto transfers = std::make_unique<Transfers>(members_, tag);
    for (const Transfer& transfer : receives) {
      CheckPeer(transfer);
      transfers->Receive(transfer, group_);
    }
    for (const Transfer& transfer : sends) {
      CheckPeer(transfer);
      transfers->Send(transfer, group_);
      for (SentBytes* sent = sent_.get(); sent != nullptr; sent = sent->parent.get())
        sent->bytes += transfer.bytes;
    }
    return Pending(std::move(transfers));
  }

  // Any call of MPI moves what is pending; a look for messages changes nothing.
  void Advance() override {
    int found = 0;
    Must(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_, &found, MPI_STATUS_IGNORE), "looking for messages");
  }

  void SumIntegers(std::span<uint64_t> values) override {
    Reduce(values, MPI_UINT64_T, MPI_SUM, "the sum of integers");
  }
  // MPICH 4.0 takes the maximum of MPI_UINT64_T as if it were signed. Signed maxima are right everywhere, so
  // the values are moved to where their order is the signed one.
  void MaxIntegers(std::span<uint64_t> values) override {
    constexpr uint64_t kSign = uint64_t{1} << 63;
    for (uint64_t& value : values) value ^= kSign;
    Reduce(values, MPI_INT64_T, MPI_MAX, "the maximum of integers");
    for (uint64_t& value : values) value ^= kSign;
  }

  std::vector<std::string> Gather(const std::string& mine) override {
    const std::vector<int> lengths = GatherLengths(mine);
    std::vector<int> starts(lengths.size(), 0);
    std::partial_sum(lengths.begin(), lengths.end() - 1, starts.begin() + 1);
    std::string all(static_cast<size_t>(starts.back() + lengths.back()), '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    const char* operation = "the gathering of texts";
    Must(MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(), lengths.data(),
                         starts.data(), MPI_BYTE, group_, &request),
         operation);
    WaitForAll(request, operation);
    std::vector<std::string> texts;
    for (size_t r = 0; r < lengths.size(); ++r) {
      texts.push_back(all.substr(static_cast<size_t>(starts[r]), static_cast<size_t>(lengths[r])));
    }
    return texts;
  }

  void Barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    Must(MPI_Ibarrier(group_, &request), "the barrier");
    WaitForAll(request, "the barrier");
  }

  std::unique_ptr<Communicator> Split(int color, int key) override {
    SAMESTEP_CHECK(color >= 0);
    Barrier();  // MPI has no split that does not block: wait here, with a time limit
    MPI_Comm group = MPI_COMM_NULL;
    Must(MPI_Comm_split(group_, color, key, &group), "the split of a group");
    return std::make_unique<MpiCommunicator>(group, members_->time_limit, sent_);
  }

 private:
  void CheckPeer(const Transfer& transfer) const {
    SAMESTEP_CHECK(transfer.peer >= 0 && transfer.peer < size_);
    SAMESTEP_CHECK_NE(transfer.peer, rank_);
  }

  std::vector<int> WorldRanks() const {
    MPI_Group own, world;
    MPI_Comm_group(group_, &own);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    std::vector<int> ranks(static_cast<size_t>(size_)), translated(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group_translate_ranks(own, size_, ranks.data(), world, translated.data());
    MPI_Group_free(&own);
    MPI_Group_free(&world);
    return translated;
  }

  // Of integers only: no floating-point reduction may enter this file.
  void Reduce(std::span<uint64_t> values, MPI_Datatype type, MPI_Op operation, const char* name) {
    for (size_t done = 0; done < values.size(); done += kMostValues) {
      const int count = static_cast<int>(std::min(values.size() - done, kMostValues));
      MPI_Request request = MPI_REQUEST_NULL;
      Must(MPI_Iallreduce(MPI_IN_PLACE, values.data() + done, count, type, operation, group_, &request),
           name);
      WaitForAll(request, name);
    }
  }

  std::vector<int> GatherLengths(const std::string& mine) {
    const uint64_t length = mine.size();
    std::vector<uint64_t> lengths(static_cast<size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    const char* operation = "the gathering of lengths";
    Must(MPI_Iallgather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, group_, &request),
         operation);
    WaitForAll(request, operation);
    uint64_t total = 0;
    for (uint64_t each : lengths) total += each;
    SAMESTEP_CHECK_LE(total, kMostBytes);  // these are small texts
    return std::vector<int>(lengths.begin(), lengths.end());
  }

  void WaitForAll(MPI_Request request, const char* operation) {
    Patience patience;
    for (;;) {
      int done = 0;
      Must(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation);
      if (done) return;
      if (Overdue(patience, *members_)) {
        std::vector<int> peers = members_->world_ranks;
        peers.erase(peers.begin() + rank_);
        FailForSilence(*members_, operation, peers);
      }
      patience.Pause();
    }
  }

  MPI_Comm group_;
  int rank_ = 0, size_ = 1;
  std::shared_ptr<const Membership> members_;
  std::shared_ptr<SentBytes> sent_;
};

}  // namespace

std::string MpiName() {
#if defined(OPEN_MPI)
  return "Open MPI";
#elif defined(MPICH)
  return "MPICH";
#else
  return "MPI";
#endif
}

Status StartMpi() {
  int level = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  if (code != MPI_SUCCESS) return IoError("MPI did not start: {}", MpiText(code));
  if (level < MPI_THREAD_FUNNELED) {
    return UsageError(
        "this MPI serves programs without threads only (level {}, needed is MPI_THREAD_FUNNELED)", level);
  }
  return {};
}

bool MpiRuns() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun && !ended;
}

std::unique_ptr<Communicator> MpiGroup(int64_t time_limit_s) {
  SAMESTEP_CHECK(MpiRuns());
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, std::chrono::seconds(time_limit_s), nullptr);
}

int RanksOnThisMachine() {
  MPI_Comm machine = MPI_COMM_NULL;
  Must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
       "finding the ranks of this machine");
  int ranks = 1;
  MPI_Comm_size(machine, &ranks);
  MPI_Comm_free(&machine);
  return ranks;
}

void EndMpi() {
  if (MpiRuns()) MPI_Finalize();
}

void AbortMpi(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace samestep
