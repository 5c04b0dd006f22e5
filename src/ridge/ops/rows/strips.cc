#include "ridge/ops/rows/strips.h"

#include <algorithm>

#include "ridge/base/cores.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

constexpr std::int64_t line = 64;

std::int64_t count(const Strips& s) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < s.extents.size(); ++i) n *= (s.extents[i] + s.parts[i] - 1) / s.parts[i];
  return n;
}

// A thread's state: its scratch, and the operands' addresses in the current block.
class Walker {
 public:
  Walker(const Strips& strips, std::span<void* const> data) : strips_(strips), data_(data.begin(), data.end()) {
    std::int64_t bytes = 0;
    for (const StripOperand& x : strips.operands)
      bytes += (x.scratch * (bits(x.dtype) / 8) + line - 1) / line * line + line;
    thread_local std::vector<char> memory;  // Reused between calls.
    memory.resize(std::max(memory.size(), static_cast<std::size_t>(bytes)));
    char* free = memory.data() + (line - reinterpret_cast<std::uintptr_t>(memory.data()) % line) % line;
    for (std::size_t i = 0; i < strips.operands.size(); ++i) {
      const StripOperand& x = strips.operands[i];
      bases_.push_back(x.scratch > 0 ? free : static_cast<char*>(data[i]));
      if (x.scratch > 0) free += (x.scratch * (bits(x.dtype) / 8) + line - 1) / line * line;
    }
  }

  void strip(std::int64_t index) {
    std::vector<std::int64_t> at(strips_.extents.size());
    bool whole = true;
    for (std::size_t d = at.size(); d-- > 0;) {
      const std::int64_t pieces = (strips_.extents[d] + strips_.parts[d] - 1) / strips_.parts[d];
      at[d] = index % pieces * strips_.parts[d];
      index /= pieces;
      whole &= at[d] + strips_.parts[d] <= strips_.extents[d];
    }
    for (std::size_t i = 0; i < data_.size(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < strips_.operands[i].strides.size(); ++d)
        offset += at[d] * strips_.operands[i].strides[d];
      data_[i] = bases_[i] + offset * (bits(strips_.operands[i].dtype) / 8);
    }
    for (const StripStep& step : whole ? strips_.whole : strips_.rest) perform(step);
  }

 private:
  void perform(const StripStep& step) {
    std::vector<void*> data;
    for (const int i : step.operands) data.push_back(i < 0 ? nullptr : data_[static_cast<std::size_t>(i)]);
    if (const auto* rows = std::get_if<RowProblem>(&step.kernel))
      ops::rows(*rows, {data[0], data[1], data[2]}, 1);
    else if (const auto* reduction = std::get_if<ReduceProblem>(&step.kernel))
      ops::reduce(*reduction, data[0], data[1], 1);
    else
      ops::chain(std::get<ChainProgram>(step.kernel), data, 1);
  }

  const Strips& strips_;
  std::vector<void*> data_;
  std::vector<char*> bases_;
};

}  // namespace

std::optional<std::string> refuse(const Strips& s) {
  if (s.parts.size() != s.extents.size()) return "strips: expected a block size for each split dimension";
  int rests = 0;
  for (std::size_t i = 0; i < s.parts.size(); ++i) {
    if (s.parts[i] < 1 || s.extents[i] < s.parts[i])
      return "strips: expected block sizes of 1 to " + std::to_string(s.extents[i]) + ", found " +
             std::to_string(s.parts[i]);
    rests += s.extents[i] % s.parts[i] != 0;
  }
  if (rests > (s.rest.empty() ? 0 : 1)) return "strips: expected at most one dimension with a remainder";
  for (const auto* steps : {&s.whole, &s.rest})
    for (const StripStep& step : *steps)
      if (auto why = std::visit([](const auto& kernel) { return ops::refuse(kernel); }, step.kernel)) return why;
  return std::nullopt;
}

void strips(const Strips& s, std::span<void* const> data, int threads) {
  const std::int64_t all = count(s);
  if (threads <= 0) threads = usable_cores();
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, all));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice part = cpu::slice(all, workers, worker);
    Walker walker(s, data);
    for (std::int64_t i = part.begin; i < part.end; ++i) walker.strip(i);
  });
}

}  // namespace ridge::ops
