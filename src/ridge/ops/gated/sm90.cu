// Compiles all configs of the gated layer for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/gated/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int... index> void register_all(CompiledGatedConfig* kernels, std::integer_sequence<int, index...>) {
  ((kernels[index] = {launch_gated_kernel<GatedKernel<index, T>>, read_kernel_resources<GatedKernel<index, T>>}), ...);
}

template <class T> void register_gated_configs(CompiledGatedConfig* kernels) {
  register_all<T>(kernels, std::make_integer_sequence<int, static_cast<int>(sm90_gated_kernel_configs.size())>{});
}

template void register_gated_configs<RIDGE_TYPE>(CompiledGatedConfig* kernels);

}  // namespace ridge::ops::cuda
