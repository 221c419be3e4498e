// A program for several processes that checks the communicator over MPI; tests/mpi/CMakeLists.txt says how it
// is run. One argument: the case.
//
// Determinism: what is sent is drawn from a fixed seed, the same on all ranks, which so know what they must
// get.
#include <fmt/format.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "base/check.h"
#include "comm/world.h"

namespace samestep {
namespace {

// Contents that depend on who sends what to whom.
std::vector<unsigned char> Contents(size_t bytes, int from, int to, int tag) {
  std::vector<unsigned char> data(bytes);
  uint32_t state = static_cast<uint32_t>(from * 7919 + to * 104729 + tag * 1299709 + 1);
  for (unsigned char& byte : data) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return data;
}

struct Mail {
  std::vector<unsigned char> data;
  std::vector<unsigned char> expected;  // of what is received
};

// Each rank sends to each other rank `pieces` pieces of sizes that are a function of (from, to, piece).
uint64_t Exchange(Communicator& group, int tag, const std::vector<size_t>& sizes) {
  const auto size_of = [&](int from, int to, size_t piece) {
    return sizes[(static_cast<size_t>(from * 31 + to * 17 + tag) + piece) % sizes.size()];
  };
  std::vector<Mail> out, in;
  std::vector<Transfer> sends, receives;
  for (size_t piece = 0; piece < sizes.size(); ++piece) {
    for (int peer = 0; peer < group.size(); ++peer) {
      if (peer == group.rank()) continue;
      const int label = tag + static_cast<int>(piece);
      out.push_back({Contents(size_of(group.rank(), peer, piece), group.rank(), peer, label), {}});
      sends.push_back({peer, out.back().data.data(), out.back().data.size()});
      const size_t bytes = size_of(peer, group.rank(), piece);
      in.push_back({std::vector<unsigned char>(bytes, 0xEE), Contents(bytes, peer, group.rank(), label)});
      receives.push_back({peer, in.back().data.data(), bytes});
    }
  }
  group.Start(sends, receives, tag).Wait();
  uint64_t sent = 0;
  for (const Transfer& send : sends) sent += send.bytes;
  for (const Mail& mail : in) SAMESTEP_CHECK(mail.data == mail.expected);
  return sent;
}

void TransfersOfManySizes(Communicator& group) {
  const uint64_t before = group.bytes_sent();
  uint64_t sent = Exchange(group, 3, {0, 1, 4095, 4096, 65537, 0, 262147});
  std::mt19937 random(5);
  std::vector<size_t> sizes;
  for (int i = 0; i < 200; ++i) sizes.push_back(random() % 5000);
  for (int round = 0; round < 5; ++round) sent += Exchange(group, 100 + round, sizes);
  SAMESTEP_CHECK_EQ(group.bytes_sent() - before, sent);
}

// More than 64 MiB from one rank to the next, all at once.
void LargeTransfers(Communicator& group) {
  const size_t bytes = (size_t{65} << 20) + 3;
  const int next = (group.rank() + 1) % group.size(),
            previous = (group.rank() + group.size() - 1) % group.size();
  std::vector<unsigned char> out = Contents(bytes, group.rank(), next, 9), in(bytes);
  const Transfer send{next, out.data(), bytes}, receive{previous, in.data(), bytes};
  const auto begin = std::chrono::steady_clock::now();
  group.Start({&send, 1}, {&receive, 1}, 9).Wait();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (group.rank() == 0) fmt::print("65 MiB around a ring of {} ranks: {:.3f} s\n", group.size(), seconds);
  SAMESTEP_CHECK(in == Contents(bytes, previous, group.rank(), 9));
}

// Transfers begun in opposite orders on the two sides find each other by their tags.
void TagsInAnotherOrder(Communicator& group) {
  constexpr int kCount = 50;
  std::map<int, Mail> in;
  std::map<int, std::vector<unsigned char>> out;
  std::vector<Pending> pending;
  const int next = (group.rank() + 1) % group.size(),
            previous = (group.rank() + group.size() - 1) % group.size();
  for (int i = 0; i < kCount; ++i) {
    const int tag = 32767 - i;
    out[tag] = Contents(static_cast<size_t>(i * 1000), group.rank(), next, tag);
    const Transfer send{next, out[tag].data(), out[tag].size()};
    pending.push_back(group.Start({&send, 1}, {}, tag));
  }
  for (int i = kCount - 1; i >= 0; --i) {
    const int tag = 32767 - i;
    in[tag].data.resize(static_cast<size_t>(i * 1000));
    in[tag].expected = Contents(in[tag].data.size(), previous, group.rank(), tag);
    const Transfer receive{previous, in[tag].data.data(), in[tag].data.size()};
    pending.push_back(group.Start({}, {&receive, 1}, tag));
  }
  for (auto p = pending.rbegin(); p != pending.rend(); ++p) p->Wait();
  for (const auto& [tag, mail] : in) SAMESTEP_CHECK(mail.data == mail.expected);
}

void Integers(Communicator& group) {
  const uint64_t rank = static_cast<uint64_t>(group.rank()), size = static_cast<uint64_t>(group.size());
  std::vector<uint64_t> values = {rank, ~uint64_t{0}, uint64_t{1} << 63, rank << 61, 0};
  group.SumIntegers(values);
  SAMESTEP_CHECK_EQ(values[0], size * (size - 1) / 2);
  SAMESTEP_CHECK_EQ(values[1], uint64_t{0} - size);
  SAMESTEP_CHECK_EQ(values[2], size % 2 << 63);
  SAMESTEP_CHECK_EQ(values[3], (size * (size - 1) / 2) << 61);
  SAMESTEP_CHECK_EQ(values[4], uint64_t{0});
  std::vector<uint64_t> most = {rank, size - rank, rank == 1 ? ~uint64_t{0} : 5};
  group.MaxIntegers(most);
  SAMESTEP_CHECK_EQ(most[0], size - 1);
  SAMESTEP_CHECK_EQ(most[1], size);
  SAMESTEP_CHECK_EQ(most[2], size > 1 ? ~uint64_t{0} : 5);
  group.SumIntegers({});
}

void Texts(Communicator& group) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<size_t>((rank * 37) % 101), static_cast<char>('a' + rank));
  };
  const std::vector<std::string> all = group.Gather(text_of(group.rank()));
  SAMESTEP_CHECK_EQ(static_cast<int>(all.size()), group.size());
  for (int r = 0; r < group.size(); ++r) SAMESTEP_CHECK(all[static_cast<size_t>(r)] == text_of(r));
  for (const std::string& text : group.Gather("")) SAMESTEP_CHECK(text.empty());
}

// Halves of ranks of one parity, in descending order; then their halves.
void Groups(Communicator& group) {
  const uint64_t before = group.bytes_sent();
  std::unique_ptr<Communicator> half = group.Split(group.rank() % 2, -group.rank());
  SAMESTEP_CHECK_EQ(half->size(), (group.size() + 1 - group.rank() % 2) / 2);
  const std::vector<std::string> ranks = half->Gather(std::to_string(group.rank()));
  for (size_t i = 1; i < ranks.size(); ++i)
    SAMESTEP_CHECK_EQ(std::stoi(ranks[i - 1]), std::stoi(ranks[i]) + 2);
  uint64_t sent = Exchange(*half, 0, {10, 200, 3000});
  std::unique_ptr<Communicator> quarter = half->Split(half->rank() / 2, 0);
  sent += Exchange(*quarter, 0, {7, 70});
  Integers(*quarter);
  SAMESTEP_CHECK_EQ(group.bytes_sent() - before, sent);
  // A transfer outlives its group.
  std::vector<uint64_t> value = {static_cast<uint64_t>(group.rank())}, got = {99};
  Pending pending;
  if (half->size() > 1) {
    const int next = (half->rank() + 1) % half->size(),
              previous = (half->rank() + half->size() - 1) % half->size();
    const Transfer send{next, value.data(), 8}, receive{previous, got.data(), 8};
    pending = half->Start({&send, 1}, {&receive, 1}, 1);
  }
  half.reset();
  pending.Wait();
}

void Agreement(Communicator& group) {
  SAMESTEP_CHECK(Agree(group, {}).ok());
  const int last = group.size() - 1;
  Status one = Agree(group, group.rank() == last ? IoError("disk {} is full", 7) : Status());
  SAMESTEP_CHECK_EQ(one.message(), fmt::format("rank {}: disk 7 is full", last));
  SAMESTEP_CHECK(one.code() == StatusCode::kIo);
  one = Agree(group, UsageError("steps is 0"));
  SAMESTEP_CHECK_EQ(one.message(), "steps is 0");
  one = Agree(group, group.rank() == 0 ? NotFiniteError("a") : NotFoundError("a"));
  SAMESTEP_CHECK_EQ(one.message(), "rank 0: a");
  SAMESTEP_CHECK(one.code() == StatusCode::kNotFinite);
}

void Everything(World& world) {
  Communicator& group = world.group();
  SAMESTEP_CHECK_EQ(world.ranks_on_this_machine(), group.size());
  group.Barrier();
  TransfersOfManySizes(group);
  TagsInAnotherOrder(group);
  Integers(group);
  Texts(group);
  Groups(group);
  Agreement(group);
  LargeTransfers(group);
  group.Barrier();
  if (group.rank() == 0) fmt::print("all well on {} ranks over {}\n", group.size(), "MPI");
}

// What takes longest where processes outnumber cores: many small steps of all ranks.
void Latency(Communicator& group) {
  constexpr int kRounds = 300;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t value = 1;
  for (int i = 0; i < kRounds; ++i) group.MaxIntegers({&value, 1});
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  if (group.rank() == 0)
    fmt::print("{:.0f} us a maximum of integers, {} ranks\n", time.count() / kRounds, group.size());
}

// The last rank says nothing while the others wait for it.
void SilentPeer(Communicator& group) {
  uint64_t value = 0;
  const Transfer receive{group.size() - 1, &value, 8};
  if (group.rank() == group.size() - 1) {
    sleep(60);
  } else if (group.rank() == 0) {
    group.Start({}, {&receive, 1}, 4).Wait();
  } else {
    group.Barrier();
  }
}

// Sent and expected sizes differ.
void WrongSize(Communicator& group, size_t sent, size_t expected) {
  std::vector<unsigned char> data(64);
  const Transfer send{1, data.data(), sent}, receive{0, data.data(), expected};
  if (group.rank() == 0) group.Start({&send, 1}, {}, 0).Wait();
  if (group.rank() == 1) group.Start({}, {&receive, 1}, 0).Wait();
  group.Barrier();
}

void FloatSum(Communicator& group) {
  float value = 1;
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (group.rank() == 0) fmt::print("a float was summed: {}\n", value);
}

void OwnOperation(Communicator&) {
  const auto add = [](void*, void*, int*, MPI_Datatype*) {};
  MPI_Op operation;
  MPI_Op_create(add, 1, &operation);
}

// What the guard must count: 10 bytes to each other rank, one sum of 5 integers.
void Counted(Communicator& group) {
  Exchange(group, 0, {10});
  std::vector<uint64_t> five(5, 1);
  group.SumIntegers(five);
}

int Run(World& world, const std::string& what) {
  Communicator& group = world.group();
  if (what == "all") Everything(world);
  if (what == "latency") Latency(group);
  if (what == "silent") SilentPeer(group);
  if (what == "short") WrongSize(group, 8, 16);
  if (what == "long") WrongSize(group, 16, 8);
  if (what == "float") FloatSum(group);
  if (what == "own-operation") OwnOperation(group);
  if (what == "counted") Counted(group);
  if (what == "killed" && group.rank() == group.size() - 1) raise(SIGKILL);
  if (what == "ended" && group.rank() == 1) EndAll(group, NotFiniteError("loss is nan"));
  if (what == "killed" || what == "ended") group.Barrier();
  return 0;
}

int Main(int argc, char** argv) {
  SAMESTEP_CHECK_EQ(argc, 2);
  Result<World> world = World::Join();
  if (!world.ok()) {
    fmt::print(stderr, "samestep: error: {}\n", world.status().message());
    return world.status().ExitCode();
  }
  const int code = Run(*world, argv[1]);
  world->Leave();
  return code;
}

}  // namespace
}  // namespace samestep

int main(int argc, char** argv) { return samestep::Main(argc, argv); }
