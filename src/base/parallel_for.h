// parallel_for.h: the one way in which Samestep uses several threads.
//
//   SetSchedule({.threads = 2});
//   ParallelFor(rows, [&](int64_t row) { ... writes only what belongs to this row ... });
//
// Tasks must not share anything that they write: each result has one task that makes it. A schedule
// chooses the number of threads; a hostile one also permutes the tasks and delays them by a seed, so that
// tests can show that the order of execution reaches no result.
//
// Determinism: results do not depend on the schedule as long as tasks write disjoint memory.
#pragma once

#include <cstdint>
#include <functional>

namespace samestep {

struct Schedule {
  int threads = 0;            // 0: one for each core
  uint64_t hostile_seed = 0;  // not 0: tasks permuted and delayed (tests, `--schedule hostile:SEED`)
};

// Sets the schedule of the whole process. Not while a ParallelFor runs.
void SetSchedule(const Schedule& schedule);
Schedule CurrentSchedule();
int ThreadCount();

// Calls task(i) for each i in [0, count). Returns when all are done. Nested calls run in the caller's task.
void ParallelFor(int64_t count, const std::function<void(int64_t)>& task);

// Stops the program if this thread flushes subnormals to zero or does not round to nearest: either would
// change bits. ParallelFor calls it in every thread that runs tasks.
void CheckFloatingPointMode();

}  // namespace samestep
