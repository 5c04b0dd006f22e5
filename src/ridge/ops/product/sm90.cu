// Compiles every config_parts-th kernel config for one input type. The build compiles this file for each RIDGE_TYPE
// (Bf16, F16, E4m3, ScaledE4m3, int8_t, and float for tf32) and RIDGE_PART, to keep compilations below a minute.
// RIDGE_WHOLE_MENU=0 compiles only the sample, in fewer parts.
#include "ridge/ops/product/sm90.h"

#include <cstdint>
#include <utility>

namespace ridge::ops::cuda {

template <class T, int part, int... i> void register_part(CompiledConfig* kernels, std::integer_sequence<int, i...>) {
  constexpr int configs = static_cast<int>(sm90_kernel_configs.size());
  auto add = [&]<int index>() {
    if constexpr (index < configs) {
      if constexpr (device::has_all_kernels || is_in_sample(index, operand_dtype<T>)) {
        if constexpr (kernel_config(index, operand_dtype<T>).can_multiply(operand_dtype<T>)) {
          using Kernel = MatmulKernel<index, T>;
          kernels[index] = {launch_tile_kernel<Kernel>, read_kernel_resources<Kernel>};
        }
      }
    }
  };
  (add.template operator()<i * config_parts + part>(), ...);
}

template <class T, int part> void register_configs(CompiledConfig* kernels) {
  constexpr int configs_per_part = (static_cast<int>(sm90_kernel_configs.size()) + config_parts - 1) / config_parts;
  register_part<T, part>(kernels, std::make_integer_sequence<int, configs_per_part>{});
}

template void register_configs<RIDGE_TYPE, RIDGE_PART>(CompiledConfig* kernels);

}  // namespace ridge::ops::cuda
