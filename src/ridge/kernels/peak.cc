#include "ridge/kernels/peak.h"

#include <thread>
#include <vector>

namespace ridge::kernels {

const PeakLoops& peak_loops() {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
    return avx512_bf16_peak_loops();
  if (avx512) return avx512_peak_loops();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_peak_loops();
#endif
  return plain_peak_loops();
}

void run_together(int threads, const std::function<void(int)>& work) {
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&work, i] { work(i); });
  work(0);
}

}  // namespace ridge::kernels
