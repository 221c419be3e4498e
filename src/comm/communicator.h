// communicator.h: a group of processes that pass bytes to each other and add integers.
//
//   std::unique_ptr<Communicator> world = ...;                          // comm/world.h, or OneProcess()
//   Pending gather = world->Start(sends, receives, tag);                // bytes, to and from any ranks
//   ... compute ...
//   gather.Wait();                                                      // memory may be used again
//   world->SumIntegers(counts);                                         // modulo 2^64, in place
//
// There is no floating-point reduction here, and there must be none: its order would follow ranks, message
// size and library. Floats travel as bytes, and kernels add them (parallel/reduce.h).
//
// Calls are made by the main thread. A network that fails, and a peer that is gone, end the program with one
// message (exit code 2); a peer that is silent for longer than the time limit does, too.
//
// Determinism: bytes arrive as they were sent; integer sums and maxima have no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace samestep {

// A piece of memory that goes to a peer, or comes from it. Pieces of one Start for one peer are matched in
// their order.
struct Transfer {
  int peer = 0;  // rank in the group; never the own one
  void* data = nullptr;
  size_t bytes = 0;
};

// Transfers on their way. Waits when destroyed.
class Pending {
 public:
  struct State {
    virtual ~State() = default;
    virtual void Wait() = 0;
  };
  Pending() = default;
  explicit Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&& other) noexcept {
    Wait();
    state_ = std::move(other.state_);
    return *this;
  }
  ~Pending() { Wait(); }
  void Wait() {
    if (state_ != nullptr) state_->Wait();
    state_.reset();
  }

 private:
  std::unique_ptr<State> state_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begins to send and to receive. Memory must stay as it is until Wait. `tag` (0 to 32767) separates
  // transfers between the same two ranks that may be begun in another order on the two sides.
  virtual Pending Start(std::span<const Transfer> sends, std::span<const Transfer> receives, int tag) = 0;

  // Lets what was started go on; called now and then by who computes meanwhile.
  virtual void Advance() {}

  // In place, on every rank: the sum modulo 2^64, the greatest.
  virtual void SumIntegers(std::span<uint64_t> values) = 0;
  virtual void MaxIntegers(std::span<uint64_t> values) = 0;
  // What each rank gave, in the order of ranks, on every rank. For small texts.
  virtual std::vector<std::string> Gather(const std::string& mine) = 0;
  virtual void Barrier() = 0;
  // Groups of the ranks that named the same colour, ordered by key.
  virtual std::unique_ptr<Communicator> Split(int color, int key) = 0;

  // Bytes that this process has sent through this group and all that were split from it, integers not
  // counted.
  virtual uint64_t bytes_sent() const = 0;
};

// The group of a program that runs alone.
std::unique_ptr<Communicator> OneProcess();

}  // namespace samestep
