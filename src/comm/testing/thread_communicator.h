// thread_communicator.h: threads of one test as the ranks of a group. For tests only.
//
//   RunAsRanks(4, [&](Communicator& group) {              // four threads; returns when all have ended
//     group.SumIntegers(values[group.rank()]);
//   });
//
// What is sent is copied when it is started, as a network could: a sender may change its memory only after
// Wait, but nothing depends on that here. A rank that waits for 120 s for others stops the program, so that a
// test whose ranks disagree ends with a message. EXPECT_... may be used on ranks; ASSERT_... ends one alone.
//
// Determinism: bytes arrive in the order in which their pair of ranks started them; sums are integers'.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/parallel_for.h"
#include "comm/communicator.h"

namespace samestep {

// What the ranks of one group share.
class ThreadHub {
 public:
  explicit ThreadHub(int size) : size_(size), texts_(static_cast<size_t>(size)) {}
  int size() const { return size_; }

  // What each rank gave. All ranks must call it; none leaves before all have arrived.
  std::vector<std::string> Gather(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    texts_[static_cast<size_t>(rank)] = mine;
    if (++arrived_ == size_) {
      gathered_ = texts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      WaitUntil(lock, [&] { return round_ != round; });
    }
    return gathered_;  // the next round cannot end before this rank has arrived there
  }

  // The n-th piece from one rank to another under a tag is the n-th that is received.
  using Key = std::tuple<int, int, int, uint64_t>;  // from, to, tag, number
  Key SendKey(int from, int to, int tag) { return NextKey(&sends_, from, to, tag); }
  Key ReceiveKey(int from, int to, int tag) { return NextKey(&receives_, from, to, tag); }
  void Put(const Key& key, std::string bytes) {
    const std::lock_guard lock(mutex_);
    mail_[key] = std::move(bytes);
    changed_.notify_all();
  }
  std::string Take(const Key& key) {
    std::unique_lock lock(mutex_);
    WaitUntil(lock, [&] { return mail_.contains(key); });
    std::string bytes = std::move(mail_[key]);
    mail_.erase(key);
    return bytes;
  }

  // The hub of the ranks that named `colour` in the `split`-th split of this group.
  std::shared_ptr<ThreadHub> Child(int split, int colour, int size) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<ThreadHub>& child = children_[{split, colour}];
    if (child == nullptr) child = std::make_shared<ThreadHub>(size);
    return child;
  }

 private:
  using Counts = std::map<std::tuple<int, int, int>, uint64_t>;

  Key NextKey(Counts* counts, int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    return {from, to, tag, (*counts)[{from, to, tag}]++};
  }

  template <typename Condition>
  void WaitUntil(std::unique_lock<std::mutex>& lock, const Condition& condition) {
    const bool met = changed_.wait_for(lock, std::chrono::seconds(120), condition);
    SAMESTEP_CHECK(met);  // a rank has ended, or waits for something else
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t round_ = 0;
  int arrived_ = 0;
  std::vector<std::string> texts_, gathered_;
  Counts sends_, receives_;
  std::map<Key, std::string> mail_;
  std::map<std::pair<int, int>, std::shared_ptr<ThreadHub>> children_;
};

class ThreadCommunicator : public Communicator {
 public:
  using Counter = std::shared_ptr<std::atomic<uint64_t>>;
  // `counters`: those of the groups that this one was split from.
  ThreadCommunicator(std::shared_ptr<ThreadHub> hub, int rank, std::vector<Counter> counters = {})
      : hub_(std::move(hub)), rank_(rank), counters_(std::move(counters)) {
    counters_.push_back(std::make_shared<std::atomic<uint64_t>>(0));
  }
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }

  Pending Start(std::span<const Transfer> sends, std::span<const Transfer> receives, int tag) override {
    SAMESTEP_CHECK(tag >= 0 && tag <= 32767);
    for (const Transfer& t : sends) {
      CheckPeer(t);
      hub_->Put(hub_->SendKey(rank_, t.peer, tag), std::string(static_cast<const char*>(t.data), t.bytes));
      for (const Counter& counter : counters_) *counter += t.bytes;
    }
    auto arriving = std::make_unique<Arriving>();
    arriving->hub = hub_;
    for (const Transfer& t : receives) {
      CheckPeer(t);
      arriving->pieces.emplace_back(hub_->ReceiveKey(t.peer, rank_, tag), t);
    }
    return Pending(std::move(arriving));
  }

  void SumIntegers(std::span<uint64_t> values) override {
    Combine(values, [](uint64_t a, uint64_t b) { return a + b; });
  }
  void MaxIntegers(std::span<uint64_t> values) override {
    Combine(values, [](uint64_t a, uint64_t b) { return std::max(a, b); });
  }
  std::vector<std::string> Gather(const std::string& mine) override { return hub_->Gather(rank_, mine); }
  void Barrier() override { hub_->Gather(rank_, ""); }

  std::unique_ptr<Communicator> Split(int colour, int key) override {
    const std::string mine = std::to_string(colour) + " " + std::to_string(key);
    const std::vector<std::string> all = Gather(mine);
    std::vector<std::pair<int, int>> members;  // key, rank here
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t space = all[i].find(' ');
      if (std::stoi(all[i]) == colour) members.emplace_back(std::stoi(all[i].substr(space)), int(i));
    }
    std::sort(members.begin(), members.end());
    const auto me = std::find(members.begin(), members.end(), std::pair(key, rank_));
    std::shared_ptr<ThreadHub> hub = hub_->Child(splits_++, colour, static_cast<int>(members.size()));
    return std::make_unique<ThreadCommunicator>(hub, static_cast<int>(me - members.begin()), counters_);
  }

  uint64_t bytes_sent() const override { return *counters_.back(); }

 private:
  struct Arriving : Pending::State {
    void Wait() override {
      for (const auto& [key, target] : pieces) {
        const std::string bytes = hub->Take(key);
        SAMESTEP_CHECK_EQ(bytes.size(), target.bytes);
        if (!bytes.empty()) std::memcpy(target.data, bytes.data(), bytes.size());
      }
      pieces.clear();
    }
    std::shared_ptr<ThreadHub> hub;
    std::vector<std::pair<ThreadHub::Key, Transfer>> pieces;
  };

  void CheckPeer(const Transfer& t) const {
    SAMESTEP_CHECK(t.peer >= 0 && t.peer < size() && t.peer != rank_);
  }

  template <typename Operation>
  void Combine(std::span<uint64_t> values, const Operation& operation) {
    const std::string mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    const std::vector<std::string> all = Gather(mine);
    for (size_t r = 0; r < all.size(); ++r) {
      SAMESTEP_CHECK_EQ(all[r].size(), mine.size());
      for (size_t i = 0; i < values.size(); ++i) {
        uint64_t other;
        std::memcpy(&other, all[r].data() + i * sizeof other, sizeof other);
        values[i] = r == 0 ? other : operation(values[i], other);
      }
    }
  }

  std::shared_ptr<ThreadHub> hub_;
  int rank_;
  int splits_ = 0;
  std::vector<Counter> counters_;  // of this group and of those it was split from; the own last
};

// Runs `body` on each of `ranks` threads, with the group of them all.
inline void RunAsRanks(int ranks, const std::function<void(Communicator&)>& body) {
  static_cast<void>(CurrentSchedule());  // made here, before the ranks would all make it at once
  const auto hub = std::make_shared<ThreadHub>(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&hub, &body, rank] {
      ThreadCommunicator group(hub, rank);
      body(group);
    });
  }
}

}  // namespace samestep
