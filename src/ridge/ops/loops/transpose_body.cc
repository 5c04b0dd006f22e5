// Transposes lines to columns and back, eight lines and eight elements at a time, by three rounds of shuffles. Compiled
// once for each instruction set.
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

constexpr int side = 8;
constexpr std::int64_t piece_elements = 64;
typedef float LineOfFloats __attribute__((vector_size(4 * side)));

// Exchanges rows and columns of a square; strides are in elements.
inline void transpose_square(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride) {
  LineOfFloats x[side], y[side];
  for (int i = 0; i < side; ++i) std::memcpy(&x[i], from + i * from_stride, sizeof x[i]);
  for (int i = 0; i < side; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < side; i += 4)
    for (int j = i; j < i + 2; ++j) {
      x[j] = __builtin_shufflevector(y[j], y[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[j + 2] = __builtin_shufflevector(y[j], y[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int j = 0; j < 4; ++j) {
    y[j] = __builtin_shufflevector(x[j], x[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[j + 4] = __builtin_shufflevector(x[j], x[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < side; ++i) std::memcpy(to + i * to_stride, &y[i], sizeof y[i]);
}

// Reads or writes up to eight lines, from element `first`; `wide` holds `piece_elements` floats of each.
template <class V, class T> void transpose_piece(const LineTransposition& run, std::size_t line, std::int64_t first) {
  alignas(64) float wide[side][piece_elements];
  const std::int64_t n = std::min(piece_elements, run.elements - first);
  const auto lines = static_cast<int>(std::min<std::size_t>(side, run.lines.size() - line));
  T* const data = static_cast<T*>(run.data) + first;
  float* const tile = run.tile + first * run.row_stride + line;
  if (!run.stores)
    for (int i = 0; i < lines; ++i) widen_array<V>(data + run.lines[line + i], n, wide[i]);
  std::int64_t at = 0;
  for (; lines == side && at + side <= n; at += side)
    run.stores ? transpose_square(tile + at * run.row_stride, run.row_stride, &wide[0][at], piece_elements)
               : transpose_square(&wide[0][at], piece_elements, tile + at * run.row_stride, run.row_stride);
  for (; at < n; ++at)
    for (int i = 0; i < lines; ++i)
      if (run.stores)
        wide[i][at] = tile[at * run.row_stride + i];
      else
        tile[at * run.row_stride + i] = wide[i][at];
  if (run.stores)
    for (int i = 0; i < lines; ++i) round_array<V>(wide[i], n, data + run.lines[line + i], false);
}

}  // namespace

namespace RIDGE_BODY_ISA {
void transpose_lines(const LineTransposition& run) {
  StoredFloats::dispatch(run.dtype, [&]<class T>() {
    for (std::size_t line = 0; line < run.lines.size(); line += side)
      for (std::int64_t first = 0; first < run.elements; first += piece_elements)
        transpose_piece<FloatLanes, T>(run, line, first);
  });
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
