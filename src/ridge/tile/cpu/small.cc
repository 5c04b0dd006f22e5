#include "ridge/tile/cpu/small.h"

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/tile/cpu/schedule.h"

namespace ridge::tile::cpu {
namespace {

const float* element_address(const Matrix& m, Index row) {
  return static_cast<const float*>(m.data) + row * m.row_stride;
}

// Packs `lanes` rows of the matrix from `row` on to [k][width].
void pack_rows(const Packers& packers, const Matrix& m, Index row, Index lanes, Index width, Unit* out) {
  const bool along_k = m.col_stride == 1;
  (along_k ? packers.along_k : packers.across_k)({.source = element_address(m, row),
                                                  .stride = along_k ? m.row_stride : m.col_stride,
                                                  .lanes = static_cast<int>(lanes),
                                                  .width = static_cast<int>(width),
                                                  .k = m.cols,
                                                  .out = out});
}

}  // namespace

bool is_small_product(const Engine& e, const Matrix& a, const Matrix& b) {
  const bool reads_f32 = e.per_unit == 1 && e.step_multiple == 1 && e.left_tail == 0 && e.left_in_place &&
                         e.right_in_place && max_small_size % e.cols == 0;
  if (!reads_f32 || a.cols == 0 || std::max({a.rows, a.cols, b.rows}) > max_small_size || a.computed != nullptr ||
      b.computed != nullptr || b.prepacked != nullptr)
    return false;
  constexpr int bytes = sizeof(float);
  return !prefers_skinny_schedule({1, {a.rows, b.rows, a.cols}}, {&e, bytes, bytes, &a, &b}, 1);
}

void multiply_small(const Engine& e, const Matrix& a, const Matrix& b, float* c, Index c_stride) {
  constexpr Index max_elements = max_small_size * max_small_size;
  alignas(64) Unit packed_a[max_elements], packed_b[max_elements];
  const Index m = a.rows, n = b.rows, k = a.cols;
  BlockArgs block;
  block.steps = k;
  block.c_stride = c_stride;
  const bool b_in_place = b.row_stride == 1;
  if (!b_in_place)
    for (Index j = 0; j < n; j += e.cols)
      pack_rows(e.right_packers, b, j, std::min<Index>(e.cols, n - j), e.cols, packed_b + j * k);
  const Unit* const panels = b_in_place ? static_cast<const Unit*>(b.data) : packed_b;
  block.b_stride = b_in_place ? b.col_stride : e.cols;
  block.panel_stride = b_in_place ? e.cols : e.cols * k;
  block.left_packed = a.col_stride != 1;
  block.a_stride = a.row_stride;
  const Index full_panels = n / e.cols, blocks = ceil_div(m, e.rows);
  for (Index i = 0, row = 0; i < blocks; ++i, row += block.rows) {
    block.rows = static_cast<int>(m / blocks + (i < m % blocks ? 1 : 0));
    if (block.left_packed) pack_rows(e.left_packers, a, row, block.rows, block.rows, packed_a);
    block.a = block.left_packed ? packed_a : reinterpret_cast<const Unit*>(element_address(a, row));
    for (Index panel = 0; panel * e.cols < n; panel += block.panels) {
      block.panels = panel == 0 && full_panels > 0 ? static_cast<int>(full_panels) : 1;
      block.cols = static_cast<int>(std::min<Index>(e.cols, n - panel * e.cols));
      block.b = panels + panel * block.panel_stride;
      block.c = c + row * c_stride + panel * e.cols;
      // The block prefetches in any case; these lines are read next.
      const char* const address = reinterpret_cast<const char*>(block.b);
      block.prefetch_a = {.base = address};
      block.prefetch_b = {.base = address};
      e.multiply_block(block);
    }
  }
}

}  // namespace ridge::tile::cpu
