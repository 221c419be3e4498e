// row_tasks.h: cuts the rows of a matrix into tasks worth a thread's while.
//
//   ForRowGroups(rows, columns, [&](int64_t begin, int64_t end) { ... writes rows [begin, end) ... });
//
// Determinism: for work in which each row (or element) belongs to one task only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel_for.h"

namespace samestep {

inline constexpr int64_t kElementsOfATask = 16384;

template <class Task>
void ForRowGroups(int64_t rows, int64_t columns, const Task& task) {
  const int64_t group = std::max<int64_t>(1, kElementsOfATask / std::max<int64_t>(1, columns));
  ParallelFor((rows + group - 1) / group,
              [&](int64_t i) { task(i * group, std::min(rows, (i + 1) * group)); });
}

}  // namespace samestep
