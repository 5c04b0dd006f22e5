// Runs chains. A thread lowers a chain when it first runs it; the thread pool's workers divide its blocks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t min_elements_per_thread = 1 << 14;  // These take several us; waking a worker takes one.

// Returns the bytes of all tensors, each element counted once.
double footprint_bytes(const LoweredChain& code) {
  double bytes = 0;
  for (const LoweredTensor& t : code.tensors) {
    double tensor_bytes = dtype_bits(t.dtype) / 8;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code.axes); ++axis)
      if (t.strides[axis] != 0) tensor_bytes *= static_cast<double>(code.extents[axis]);
    bytes += tensor_bytes;
  }
  return bytes;
}

void run_blocks(const ChainRunArgs& run) {
  pool::select_for_isa(plain::run_chain, avx2::run_chain, avx512::run_chain)(run);
}

float* thread_scratch(std::int64_t floats) {  // Returns this thread's 64-byte aligned buffer, which later calls reuse.
  thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(floats) + 16));
  const auto misaligned_floats = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(float) % 16;
  return memory.data() + (misaligned_floats == 0 ? 0 : 16 - misaligned_floats);
}

bool is_same(const ChainTensor& a, const ChainTensor& b) { return a.dtype == b.dtype && a.strides == b.strides; }
bool is_same(const ChainProgram& a, const ChainProgram& b) {
  static_assert(sizeof(ChainStep) == 8 * sizeof(int), "steps are compared as bytes: 0 is not -0, and NaN equals NaN");
  return a.registers == b.registers && a.extents == b.extents && a.steps.size() == b.steps.size() &&
         (a.steps.empty() || std::memcmp(a.steps.data(), b.steps.data(), a.steps.size() * sizeof(ChainStep)) == 0) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const ChainTensor& x, const ChainTensor& y) { return is_same(x, y); });
}

// Returns the chain's code from this thread's cache of its last eight programs, or lowers it. Lowering takes as long as
// some thousand elements of an affine chain; a lookup takes a tenth of that. The reference stays valid until eight
// other programs have run in this thread.
const LoweredChain& find_or_lower(const ChainProgram& program) {
  struct CachedChain {
    ChainProgram program;
    LoweredChain code;
  };
  thread_local std::array<CachedChain, 8> cache;
  thread_local std::size_t oldest = 0;
  for (const CachedChain& each : cache)
    if (each.code.axes > 0 && is_same(each.program, program)) return each.code;
  CachedChain& to = cache[std::exchange(oldest, (oldest + 1) % cache.size())];
  to = {program, lower_chain(program)};
  to.code.streams_stores = footprint_bytes(to.code) > static_cast<double>(pool::cache_sizes().l3);
  return to.code;
}

}  // namespace

Reason unsupported_reason(const ChainProgram& program) {
  if (auto reason = pool::isa_override_error()) return reason;
  return invalid_reason(program);
}

void run_chain(const LoweredChain& code, std::span<void* const> tensors) {
  if (code.elements == 0) return;
  run_blocks({code, tensors, 0, code.block_count(), thread_scratch(chain_scratch_floats(code))});
}

void run_repeated_chain(const RepeatedChainArgs& run) {
  pool::select_for_isa(plain::run_repeated_chain, avx2::run_repeated_chain, avx512::run_repeated_chain)(run);
}
std::int64_t chain_group_elements() {
  return pool::select_for_isa(plain::chain_group_elements, avx2::chain_group_elements, avx512::chain_group_elements)();
}

void run_chain_program(const ChainProgram& program, std::span<void* const> tensors, int threads) {
  const LoweredChain& code = find_or_lower(program);
  if (code.elements == 0) return;
  const std::int64_t blocks = code.block_count();
  if (threads <= 0) threads = usable_cores();
  const std::int64_t useful_threads = std::max<std::int64_t>(code.elements / min_elements_per_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, useful_threads, blocks}));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice range = pool::split_evenly(blocks, workers, worker);
    run_blocks({code, tensors, range.begin, range.end, thread_scratch(chain_scratch_floats(code))});
  });
}

}  // namespace ridge::ops
