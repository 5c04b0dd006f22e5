#include "ridge/pool/peak.h"

#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::pool {

namespace {
#ifdef __x86_64__
const PeakLoops& without_bf16_peak_loops() {  // for CPUs that multiply bf16 as f32
  static const PeakLoops loops = [] {
    PeakLoops x = avx512_bf16_peak_loops();
    x.bf16_flop_per_round = 0;
    x.bf16 = nullptr;
    return x;
  }();
  return loops;
}
#endif
}  // namespace

const PeakLoops& peak_loops() {
#ifdef __x86_64__
  switch (active_isa()) {
    case Isa::amx: return amx_peak_loops();
    case Isa::avx512_bf16: return multiplies_bf16_pairs() ? avx512_bf16_peak_loops() : without_bf16_peak_loops();
    case Isa::avx512: return avx512_peak_loops();
    case Isa::avx2: return avx2_peak_loops();
    case Isa::plain: break;
  }
#endif
  return plain_peak_loops();
}

void run_concurrently(int threads, const std::function<void(int)>& work) { run_parallel(threads, work); }

}  // namespace ridge::pool
