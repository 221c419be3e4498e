// The group of a program that runs alone: nothing to send, and sums of one summand.
#include "base/check.h"
#include "comm/communicator.h"

namespace samestep {
namespace {

class Alone : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Pending Start(std::span<const Transfer> sends, std::span<const Transfer> receives, int) override {
    SAMESTEP_CHECK(sends.empty() && receives.empty());  // there is no peer
    return Pending();
  }
  void SumIntegers(std::span<uint64_t>) override {}
  void MaxIntegers(std::span<uint64_t>) override {}
  std::vector<std::string> Gather(const std::string& mine) override { return {mine}; }
  void Barrier() override {}
  std::unique_ptr<Communicator> Split(int, int) override { return OneProcess(); }
  uint64_t bytes_sent() const override { return 0; }
};

}  // namespace

std::unique_ptr<Communicator> OneProcess() { return std::make_unique<Alone>(); }

}  // namespace samestep
