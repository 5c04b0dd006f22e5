// Compiles the rows of the gated menu for one input type, RIDGE_TYPE (Bf16, F16).
#include "ridge/ops/gated/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int... row> void list(GatedRowKernel* kernels, std::integer_sequence<int, row...>) {
  ((kernels[row] = {launch_gated_row<GatedKernel<row, T>>, facts_of_row<GatedKernel<row, T>>}), ...);
}

template <class T> void list_gated_rows(GatedRowKernel* kernels) {
  list<T>(kernels, std::make_integer_sequence<int, static_cast<int>(sm90_gated_menu.size())>{});
}

template void list_gated_rows<RIDGE_TYPE>(GatedRowKernel* kernels);

}  // namespace ridge::ops::cuda
