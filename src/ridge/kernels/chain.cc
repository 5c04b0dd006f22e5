// Chains: lowered once a call, their blocks shared out over the pool.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/kernels/chain_code.h"
#include "ridge/kernels/run.h"
#include "ridge/tile/target/cpu/isa.h"
#include "ridge/tile/target/cpu/pool.h"

namespace ridge::kernels {
namespace {

namespace cpu = tile::cpu;

constexpr std::int64_t elements_worth_a_thread = 1 << 14;  // some microseconds; waking a worker costs about one

// Bytes that the chain touches: each tensor's own elements once.
double footprint(const ChainCode& code) {
  double bytes = 0;
  for (const ChainAccess& t : code.tensors) {
    double own = bits(t.dtype) / 8;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(code.axes); ++axis)
      if (t.strides[axis] != 0) own *= static_cast<double>(code.extents[axis]);
    bytes += own;
  }
  return bytes;
}

void run_blocks(const ChainRun& run) {
  switch (cpu::isa()) {
#if defined(__x86_64__)
    case cpu::Isa::avx512_bf16:
    case cpu::Isa::avx512: return run_chain_avx512(run);
    case cpu::Isa::avx2: return run_chain_avx2(run);
#endif
    default: return run_chain_plain(run);
  }
}

float* scratch_of(std::int64_t floats) {  // this thread's, kept from call to call
  thread_local std::vector<float> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(floats) + 16));
  const auto past = reinterpret_cast<std::uintptr_t>(memory.data()) / sizeof(float) % 16;
  return memory.data() + (past == 0 ? 0 : 16 - past);
}

}  // namespace

std::optional<std::string> refuse(const ChainProgram& program) {
  if (auto refusal = cpu::isa_refusal()) return refusal;
  return find_fault(program);
}

void run_chain(const ChainCode& code, std::span<void* const> tensors) {
  run_blocks({code, tensors, 0, code.blocks(), scratch_of(chain_scratch_floats(code))});
}

void chain(const ChainProgram& program, std::span<void* const> tensors, int threads) {
  ChainCode code = lower(program);
  if (code.elements == 0) return;
  code.stream = footprint(code) > static_cast<double>(cpu::caches().l3);
  const std::int64_t blocks = code.blocks();
  if (threads <= 0) threads = usable_cores();
  const std::int64_t worth = std::max<std::int64_t>(code.elements / elements_worth_a_thread, 1);
  const int workers = static_cast<int>(std::min({std::int64_t{threads}, worth, blocks}));
  cpu::run(workers, [&](int worker) {
    const cpu::Slice part = cpu::slice(blocks, workers, worker);
    run_blocks({code, tensors, part.begin, part.end, scratch_of(chain_scratch_floats(code))});
  });
}

}  // namespace ridge::kernels
