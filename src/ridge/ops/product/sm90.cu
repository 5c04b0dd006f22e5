// Compiles every row_parts-th row of the menu for one input type. The build compiles this file once for each
// RIDGE_TYPE (Bf16, F16) and RIDGE_PART, so that no compilation takes a minute.
#include "ridge/ops/product/sm90.h"

#include <utility>

namespace ridge::ops::cuda {

template <class T, int part, int... i> void list(RowKernel* kernels, std::integer_sequence<int, i...>) {
  constexpr int rows = static_cast<int>(sm90_menu.size());
  auto put = [&]<int row>() {
    if constexpr (row < rows) {
      using Kernel = MenuKernel<row, T>;
      kernels[row] = {launch_row<Kernel>, facts_of_row<Kernel>};
    }
  };
  (put.template operator()<i * row_parts + part>(), ...);
}

template <class T, int part> void list_rows(RowKernel* kernels) {
  constexpr int most = (static_cast<int>(sm90_menu.size()) + row_parts - 1) / row_parts;
  list<T, part>(kernels, std::make_integer_sequence<int, most>{});
}

template void list_rows<RIDGE_TYPE, RIDGE_PART>(RowKernel* kernels);

}  // namespace ridge::ops::cuda
