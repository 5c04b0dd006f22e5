// Recurrences as chains over lines and steps, for CPUs and devices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ridge/ops/chain/problem.h"
#include "ridge/ops/loops/problem.h"

namespace ridge::ops {

// A tensor of the chain over the lines and steps. The elements of an index are their offsets: its stride is 1 along its
// axis.
struct ScanTensor {
  DType dtype = DType::f32;
  void* data = nullptr;                    // The pointer is null if the elements are an index.
  std::vector<std::int64_t> line_strides;  // One for each axis of the lines.
  std::int64_t step_stride = 0;
};

// The lines' axes are those of the recurrence but the last, ordered by the result's strides and merged.
struct ScanProblem {
  std::vector<std::int64_t> line_extents;
  std::int64_t lines = 1, steps = 1;
  std::vector<ScanTensor> tensors;  // The operands, the indices, and last the result.
  ChainProgram step;                // One more tensor holds the previous step's result.
};

ScanProblem make_scan_problem(const RecurrenceLoops& l, std::span<void* const> data);

// Returns how many steps a device's thread loads together; more steps of a large recurrence would take too many
// registers.
inline int count_steps_per_load(const ScanProblem& p) {
  constexpr std::size_t many_tensors = 4, many_steps = 24;
  return p.tensors.size() > many_tensors || p.step.steps.size() > many_steps ? 4 : 16;
}
// Returns the threads of a device's block. Each runs a line.
inline int count_recurrence_threads(const ScanProblem& p, int multiprocessors) {
  constexpr int threads = 128, few_threads = 32;
  return p.lines >= std::int64_t{threads} * multiprocessors ? threads : few_threads;
}

}  // namespace ridge::ops
