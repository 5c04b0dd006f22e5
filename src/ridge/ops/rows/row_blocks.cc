#include "ridge/ops/rows/cpu.h"

#include <algorithm>

#include "ridge/base/cores.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t line_bytes = 64;

std::int64_t count_blocks(const RowBlockProgram& s) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < s.extents.size(); ++i) n *= (s.extents[i] + s.block_sizes[i] - 1) / s.block_sizes[i];
  return n;
}

// Runs blocks on one thread. Holds the thread's scratch and the operands' addresses in the current block.
class RowBlockRunner {
 public:
  RowBlockRunner(const RowBlockProgram& program, std::span<void* const> data)
      : program_(program), data_(data.begin(), data.end()) {
    std::int64_t bytes = 0;
    for (const RowBlockOperand& x : program.operands)
      bytes += (x.scratch_elements * (dtype_bits(x.dtype) / 8) + line_bytes - 1) / line_bytes * line_bytes + line_bytes;
    thread_local std::vector<char> memory;  // Reused between calls.
    memory.resize(std::max(memory.size(), static_cast<std::size_t>(bytes)));
    char* free =
        memory.data() + (line_bytes - reinterpret_cast<std::uintptr_t>(memory.data()) % line_bytes) % line_bytes;
    for (std::size_t i = 0; i < program.operands.size(); ++i) {
      const RowBlockOperand& x = program.operands[i];
      bases_.push_back(x.scratch_elements > 0 ? free : static_cast<char*>(data[i]));
      if (x.scratch_elements > 0)
        free += (x.scratch_elements * (dtype_bits(x.dtype) / 8) + line_bytes - 1) / line_bytes * line_bytes;
    }
  }

  void run_block(std::int64_t index) {
    std::vector<std::int64_t> begin(program_.extents.size());
    bool is_full = true;
    for (std::size_t d = begin.size(); d-- > 0;) {
      const std::int64_t blocks = (program_.extents[d] + program_.block_sizes[d] - 1) / program_.block_sizes[d];
      begin[d] = index % blocks * program_.block_sizes[d];
      index /= blocks;
      is_full &= begin[d] + program_.block_sizes[d] <= program_.extents[d];
    }
    for (std::size_t i = 0; i < data_.size(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < program_.operands[i].strides.size(); ++d)
        offset += begin[d] * program_.operands[i].strides[d];
      data_[i] = bases_[i] + offset * (dtype_bits(program_.operands[i].dtype) / 8);
    }
    for (const RowBlockStep& step : is_full ? program_.full_steps : program_.remainder_steps) run_step(step);
  }

 private:
  void run_step(const RowBlockStep& step) {
    std::vector<void*> data;
    for (const int i : step.operands) data.push_back(i < 0 ? nullptr : data_[i]);
    if (const auto* rows = std::get_if<RowProblem>(&step.kernel))
      ops::run_row_function(*rows, {data[0], data[1], data[2]}, 1);
    else if (const auto* reduction = std::get_if<ReduceProblem>(&step.kernel))
      ops::reduce(*reduction, data[0], data[1], 1);
    else
      ops::run_chain_program(std::get<ChainProgram>(step.kernel), data, 1);
  }

  const RowBlockProgram& program_;
  std::vector<void*> data_;
  std::vector<char*> bases_;
};

}  // namespace

Reason unsupported_reason(const RowBlockProgram& s) {
  if (s.block_sizes.size() != s.extents.size()) return "strips: expected a block size for each split dimension";
  int remainders = 0;
  for (std::size_t i = 0; i < s.block_sizes.size(); ++i) {
    if (s.block_sizes[i] < 1 || s.extents[i] < s.block_sizes[i])
      return "strips: expected block sizes of 1 to " + std::to_string(s.extents[i]) + ", found " +
             std::to_string(s.block_sizes[i]);
    remainders += s.extents[i] % s.block_sizes[i] != 0;
  }
  if (remainders > (s.remainder_steps.empty() ? 0 : 1))
    return "strips: expected at most one dimension with a remainder";
  for (const auto* steps : {&s.full_steps, &s.remainder_steps})
    for (const RowBlockStep& step : *steps)
      if (auto why = std::visit([](const auto& kernel) { return ops::unsupported_reason(kernel); }, step.kernel))
        return why;
  return {};
}

void run_row_blocks(const RowBlockProgram& s, std::span<void* const> data, int threads) {
  const std::int64_t block_count = count_blocks(s);
  if (threads <= 0) threads = usable_cores();
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, block_count));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice range = pool::split_evenly(block_count, workers, worker);
    RowBlockRunner runner(s, data);
    for (std::int64_t i = range.begin; i < range.end; ++i) runner.run_block(i);
  });
}

}  // namespace ridge::ops
