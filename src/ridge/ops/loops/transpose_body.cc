// Transposes lines to columns and back, eight lines and eight elements at a time, by three rounds of shuffles. Compiled
// once for each instruction set.
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

constexpr int side = 8;
constexpr std::int64_t piece_elements = 64;
typedef float LineOfFloats __attribute__((vector_size(4 * side)));

// Exchanges rows and columns of a square, whose row i is at from(i) or to(i).
template <class From, class To> void transpose_square(From from, To to) {
  LineOfFloats x[side], y[side];
  for (int i = 0; i < side; ++i) std::memcpy(&x[i], from(i), sizeof x[i]);
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
  for (int i = 0; i < side; ++i) std::memcpy(to(i), &y[i], sizeof y[i]);
}

inline void copy_rows(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride,
                      std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, side * sizeof(float));
}

// Reads or writes up to eight lines, from element `first`. Full squares of f32 are transposed between the lines and the
// matrix; all other elements pass through `wide`, which holds `piece_elements` floats of each line.
template <class V, class T> void transpose_piece(const LineTransposition& run, std::size_t line, std::int64_t first) {
  alignas(64) float wide[side][piece_elements], rest[side * side] = {};
  const std::int64_t n = std::min(piece_elements, run.elements - first);
  const auto lines = static_cast<int>(std::min<std::size_t>(side, run.lines.size() - line));
  T* data[side] = {};
  for (int i = 0; i < lines; ++i) data[i] = static_cast<T*>(run.data) + run.lines[line + i] + first;
  float* const tile = run.tile + first * run.row_stride + line;
  const std::int64_t direct = std::is_same_v<T, float> && lines == side ? n - n % side : 0;
  const auto line_at = [&](int i, std::int64_t at) -> float* {
    if constexpr (std::is_same_v<T, float>)
      if (at < direct) return data[i] + at;
    return &wide[i][at];
  };
  if (!run.stores && direct < n)
    for (int i = 0; i < lines; ++i) widen_array<V>(data[i] + direct, n - direct, &wide[i][direct]);
  std::int64_t at = 0;
  for (; lines == side && at < n; at += side) {
    const std::int64_t count = std::min<std::int64_t>(side, n - at);
    float* const rows = tile + at * run.row_stride;
    float* const square = count == side ? rows : rest;
    const std::int64_t stride = count == side ? run.row_stride : side;
    const auto square_row = [&](int i) { return square + i * stride; };
    const auto line_part = [&](int i) { return line_at(i, at); };
    if (run.stores) {
      if (count < side) copy_rows(rows, run.row_stride, rest, side, count);
      transpose_square(square_row, line_part);
    } else {
      transpose_square(line_part, square_row);
      if (count < side) copy_rows(rest, side, rows, run.row_stride, count);
    }
  }
  for (; at < n; ++at)
    for (int i = 0; i < lines; ++i)
      if (run.stores)
        wide[i][at] = tile[at * run.row_stride + i];
      else
        tile[at * run.row_stride + i] = wide[i][at];
  if (run.stores && direct < n)
    for (int i = 0; i < lines; ++i) round_array<V>(&wide[i][direct], n - direct, data[i] + direct, false);
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
