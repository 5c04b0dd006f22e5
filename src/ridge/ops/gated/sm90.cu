// Compiles all configs of the gated layer for one input type, RIDGE_TYPE: Bf16 or F16.
#include "ridge/ops/gated/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int... index> void list(GatedConfigKernel* kernels, std::integer_sequence<int, index...>) {
  ((kernels[index] = {launch_gated_config<GatedKernel<index, T>>, facts_of_config<GatedKernel<index, T>>}), ...);
}

template <class T> void list_gated_configs(GatedConfigKernel* kernels) {
  list<T>(kernels, std::make_integer_sequence<int, static_cast<int>(sm90_gated_menu.size())>{});
}

template void list_gated_configs<RIDGE_TYPE>(GatedConfigKernel* kernels);

}  // namespace ridge::ops::cuda
