#include "base/parallel_for.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/check.h"

namespace samestep {
namespace {

struct Pool {
  Schedule schedule;
  std::unique_ptr<tbb::global_control> limit;  // lifts TBB's own limit of one thread a core
  std::unique_ptr<tbb::task_arena> arena;
  uint64_t calls = 0;  // mixes the hostile seed, so that each call is permuted differently
};

Pool& ThePool() {
  static Pool* pool = [] {
    auto* p = new Pool;  // never destroyed: worker threads may outlive static destructors
    return p;
  }();
  return *pool;
}

thread_local bool in_task = false;

uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

void RunTask(const std::function<void(int64_t)>& task, int64_t index) {
  const bool outer = in_task;
  in_task = true;
  task(index);
  in_task = outer;
}

// Calls body(begin, end) for ranges that make up [0, count), on the threads of the schedule.
#if defined(__SANITIZE_THREAD__)
// oneTBB's library is built without the thread sanitizer, which would take each task that it hands over for a
// race. With plain threads, ordered by nothing but their start and end, it sees the races between tasks.
template <typename Body, typename Partitioner>
void Distribute(int64_t count, const Body& body, const Partitioner&) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(i, i + 1);
  };
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < std::min<int64_t>(count, ThePool().schedule.threads); ++i)
    threads.emplace_back(work);
  work();
}
#else
template <typename Body, typename Partitioner>
void Distribute(int64_t count, const Body& body, const Partitioner& partitioner) {
  tbb::parallel_for(
      tbb::blocked_range<int64_t>(0, count),
      [&](const tbb::blocked_range<int64_t>& range) { body(range.begin(), range.end()); }, partitioner);
}
#endif

void RunHostile(int64_t count, const std::function<void(int64_t)>& task, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) {
    std::swap(order[i], order[Mix(seed + static_cast<uint64_t>(i)) % static_cast<uint64_t>(i + 1)]);
  }
  Distribute(
      count,
      [&](int64_t begin, int64_t end) {
        CheckFloatingPointMode();
        for (int64_t i = begin; i < end; ++i) {
          const uint64_t r = Mix(seed ^ Mix(static_cast<uint64_t>(i)));
          if (r % 8 == 0) std::this_thread::yield();
          if (r % 256 == 1) std::this_thread::sleep_for(std::chrono::microseconds(r >> 8 & 127));
          RunTask(task, order[i]);
        }
      },
      tbb::simple_partitioner());
}

}  // namespace

void SetSchedule(const Schedule& schedule) {
  SAMESTEP_CHECK(!in_task);
  SAMESTEP_CHECK_GE(schedule.threads, 0);
  Pool& pool = ThePool();
  pool.schedule = schedule;
  if (pool.schedule.threads == 0) {
    pool.schedule.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  pool.arena.reset();
  pool.limit.reset();
  pool.limit = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                     static_cast<size_t>(pool.schedule.threads));
  pool.arena = std::make_unique<tbb::task_arena>(pool.schedule.threads);
}

Schedule CurrentSchedule() {
  if (!ThePool().arena) SetSchedule({});
  return ThePool().schedule;
}

int ThreadCount() { return CurrentSchedule().threads; }

void ParallelFor(int64_t count, const std::function<void(int64_t)>& task) {
  if (count <= 0) return;
  Pool& pool = ThePool();
  if (!pool.arena) SetSchedule({});
  const bool hostile = pool.schedule.hostile_seed != 0;
  if (in_task || ((count == 1 || pool.schedule.threads == 1) && !hostile)) {
    CheckFloatingPointMode();
    for (int64_t i = 0; i < count; ++i) RunTask(task, i);
    return;
  }
  pool.arena->execute([&] {
    if (hostile) {
      RunHostile(count, task, Mix(pool.schedule.hostile_seed + pool.calls++));
      return;
    }
    Distribute(
        count,
        [&](int64_t begin, int64_t end) {
          CheckFloatingPointMode();
          for (int64_t i = begin; i < end; ++i) RunTask(task, i);
        },
        tbb::auto_partitioner());
  });
}

void CheckFloatingPointMode() {
#if defined(__x86_64__)
  const unsigned mode = __builtin_ia32_stmxcsr();
  constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6, kRounding = 3u << 13;
  SAMESTEP_CHECK_EQ(mode & (kFlushToZero | kDenormalsAreZero | kRounding), 0u);
#elif defined(__aarch64__)
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  constexpr uint64_t kFlushToZero = 1u << 24, kFlushHalf = 1u << 19, kRounding = 3u << 22;
  SAMESTEP_CHECK_EQ(mode & (kFlushToZero | kFlushHalf | kRounding), uint64_t{0});
#else
  SAMESTEP_CHECK_EQ(std::fegetround(), FE_TONEAREST);
#endif
}

}  // namespace samestep
