// Compiles all configs of the gated layer for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/gated/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int... index> void register_all(CompiledGatedConfig* kernels, std::integer_sequence<int, index...>) {
  const auto add = [&]<int i>() {
    if constexpr (device::is_compiled<T>(i))
      kernels[i] = {launch_gated_kernel<GatedKernel<i, T>>, read_kernel_resources<GatedKernel<i, T>>};
    else
      kernels[i] = {[](const GatedLaunchArgs&) { return device::kernel_absent; },
                    [](KernelResources&) { return device::kernel_absent; }};
  };
  (add.template operator()<index>(), ...);
}

template <class T> void register_gated_configs(CompiledGatedConfig* kernels) {
  register_all<T>(kernels, std::make_integer_sequence<int, static_cast<int>(sm90_gated_kernel_configs.size())>{});
}

template void register_gated_configs<RIDGE_TYPE>(CompiledGatedConfig* kernels);

}  // namespace ridge::ops::cuda
