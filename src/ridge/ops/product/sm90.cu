// Compiles every config_parts-th kernel config for one input type. The build compiles this file for each RIDGE_TYPE
// (Bf16, F16) and RIDGE_PART, to keep compilations below a minute. RIDGE_WHOLE_MENU=0 restricts it to the sample.
#include "ridge/ops/product/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int part, int... i> void list(ConfigKernel* kernels, std::integer_sequence<int, i...>) {
  constexpr int configs = static_cast<int>(sm90_menu.size());
  auto put = [&]<int index>() {
    if constexpr (index < configs) {
      if constexpr (RIDGE_WHOLE_MENU || in_sample(index)) {
        using Kernel = MenuKernel<index, T>;
        kernels[index] = {launch_config<Kernel>, facts_of_config<Kernel>};
      }
    }
  };
  (put.template operator()<i * config_parts + part>(), ...);
}

template <class T, int part> void list_configs(ConfigKernel* kernels) {
  constexpr int most = (static_cast<int>(sm90_menu.size()) + config_parts - 1) / config_parts;
  list<T, part>(kernels, std::make_integer_sequence<int, most>{});
}

template void list_configs<RIDGE_TYPE, RIDGE_PART>(ConfigKernel* kernels);

}  // namespace ridge::ops::cuda
