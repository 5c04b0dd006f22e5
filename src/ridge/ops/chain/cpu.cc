// Chains: lowered when a thread first runs them; the thread pool's workers share the blocks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/ops/chain/code.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

constexpr std::int64_t elements_worth_a_thread = 1 << 14;  // Some microseconds; waking a worker costs one.

// Returns the bytes of all tensors, each element counted once.
double footprint(const ChainCode& code) {
  double bytes = 0;
  for (const ChainAccess& t : code.tensors) {
    double tensor_bytes = bits(t.dtype) / 8;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code.axes); ++axis)
      if (t.strides[axis] != 0) tensor_bytes *= static_cast<double>(code.extents[axis]);
    bytes += tensor_bytes;
  }
  return bytes;
}

void run_blocks(const ChainRun& run) {
  tile::cpu::body_for_isa(plain::run_chain, avx2::run_chain, avx512::run_chain)(run);
}

float* scratch_of(std::int64_t floats) {  // This thread's, reused between calls.
  thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(floats) + 16));
  const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(float) % 16;
  return memory.data() + (past == 0 ? 0 : 16 - past);
}

bool same(const ChainTensor& a, const ChainTensor& b) { return a.dtype == b.dtype && a.strides == b.strides; }
bool same(const ChainProgram& a, const ChainProgram& b) {
  static_assert(sizeof(ChainStep) == 8 * sizeof(int), "steps are compared as bytes: 0 is not -0, and NaN equals NaN");
  return a.registers == b.registers && a.extents == b.extents && a.steps.size() == b.steps.size() &&
         (a.steps.empty() || std::memcmp(a.steps.data(), b.steps.data(), a.steps.size() * sizeof(ChainStep)) == 0) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const ChainTensor& x, const ChainTensor& y) { return same(x, y); });
}

// Returns the chain's code from this thread's cache of its last eight programs, or lowers it. Lowering takes as long as
// some thousand elements of an affine chain; a lookup takes a tenth of that. The reference stays valid until eight
// other programs have run in this thread.
const ChainCode& lowered(const ChainProgram& program) {
  struct Kept {
    ChainProgram program;
    ChainCode code;
  };
  thread_local std::array<Kept, 8> kept;
  thread_local std::size_t oldest = 0;
  for (const Kept& each : kept)
    if (each.code.axes > 0 && same(each.program, program)) return each.code;
  Kept& to = kept[std::exchange(oldest, (oldest + 1) % kept.size())];
  to = {program, lower(program)};
  to.code.stream = footprint(to.code) > static_cast<double>(cpu::caches().l3);
  return to.code;
}

}  // namespace

std::optional<std::string> refuse(const ChainProgram& program) {
  if (auto refusal = cpu::isa_refusal()) return refusal;
  return find_fault(program);
}

void run_chain(const ChainCode& code, std::span<void* const> tensors) {
  if (code.elements == 0) return;
  run_blocks({code, tensors, 0, code.blocks(), scratch_of(chain_scratch_floats(code))});
}

void chain(const ChainProgram& program, std::span<void* const> tensors, int threads) {
  const ChainCode& code = lowered(program);
  if (code.elements == 0) return;
  const std::int64_t blocks = code.blocks();
  if (threads <= 0) threads = usable_cores();
  const std::int64_t worth = std::max<std::int64_t>(code.elements / elements_worth_a_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, worth, blocks}));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice part = cpu::slice(blocks, workers, worker);
    run_blocks({code, tensors, part.begin, part.end, scratch_of(chain_scratch_floats(code))});
  });
}

}  // namespace ridge::ops
