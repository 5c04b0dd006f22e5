// Copies and sums of rows for gathers and scatters. Rows are at scattered addresses, so the first lines of a later row
// are prefetched; the hardware prefetches the rest. Compiled once for each instruction set.
#include "ridge/ops/function/vector_math_storage.h"
#include "ridge/ops/loops/float_types.h"
#include "ridge/ops/loops/isa_kernels.h"

namespace ridge::ops {
namespace {

constexpr int prefetched_rows = 4;
constexpr std::int64_t max_prefetched_bytes = 512;  // After eight lines the hardware has recognised the stream.

inline void prefetch_row(const void* row, std::int64_t bytes) {
  for (std::int64_t at = 0; at < std::min(bytes, max_prefetched_bytes); at += 64)
    __builtin_prefetch(static_cast<const char*>(row) + at, 0, 3);
}

template <class V, class From, class To> void copy_row(const From* from, std::int64_t n, To* to, bool streams) {
  if constexpr (std::is_same_v<From, To>) {
    constexpr std::int64_t per_float = sizeof(float) / sizeof(To);  // Vectors of floats keep all bits.
    if (streams && n % per_float == 0)
      return round_array<V>(reinterpret_cast<const float*>(from), n / per_float, reinterpret_cast<float*>(to), true);
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (std::is_same_v<From, float>) {
    round_array<V>(from, n, to, streams);
  } else if constexpr (std::is_same_v<To, float>) {
    widen_array<V>(from, n, to);
  } else {
    constexpr std::int64_t piece = 256;
    float wide[piece];
    for (std::int64_t i = 0; i < n; i += piece) {
      const std::int64_t count = std::min(piece, n - i);
      widen_array<V>(from + i, count, wide);
      round_array<V>(wide, count, to + i, false);
    }
  }
}

template <class T, class Copy> void copy_each_row(const RowCopies& copies, const Copy& copy) {
  const auto* const from = static_cast<const T*>(copies.from);
  const std::size_t rows = copies.rows.size();
  for (std::size_t row = 0; row < rows; ++row) {
    if (copies.prefetches && row + prefetched_rows < rows)
      prefetch_row(from + copies.rows[row + prefetched_rows].from, copies.elements * std::int64_t{sizeof(T)});
    copy(from + copies.rows[row].from, copies.rows[row].to);
  }
}
// Copies rows of a size that the compiler knows. A memcpy of 64 bytes or more would become a slow string instruction.
template <class V, int bytes, class T> void copy_short_rows(const RowCopies& copies) {
  constexpr int vector_bytes = V::lanes * static_cast<int>(sizeof(float));
  copy_each_row<T>(copies, [&](const T* from, std::int64_t at) {
    T* const to = static_cast<T*>(copies.to) + at;
    if constexpr (bytes % vector_bytes == 0) {
      for (int i = 0; i < bytes / static_cast<int>(sizeof(float)); i += V::lanes)
        V::load(reinterpret_cast<const float*>(from) + i).store(reinterpret_cast<float*>(to) + i);
    } else {
      std::memcpy(to, from, bytes);
    }
  });
}
template <class V, class From, class To> void copy_typed_rows(const RowCopies& copies) {
  if constexpr (std::is_same_v<From, To>) switch (copies.elements * std::int64_t{sizeof(To)}) {
      case 8: return copy_short_rows<V, 8, To>(copies);
      case 16: return copy_short_rows<V, 16, To>(copies);
      case 32: return copy_short_rows<V, 32, To>(copies);
      case 64: return copy_short_rows<V, 64, To>(copies);
      case 128: return copy_short_rows<V, 128, To>(copies);
      case 256: return copy_short_rows<V, 256, To>(copies);
      default: break;
    }
  auto* const to = static_cast<To*>(copies.to);
  copy_each_row<From>(
      copies, [&](const From* from, std::int64_t at) { copy_row<V>(from, copies.elements, to + at, copies.streams); });
  if (copies.streams) V::store_fence();
}

// Adds a row to the sums and prefetches the same elements of a row that follows.
template <class V, class T> void add_row(const T* from, const T* later, std::int64_t n, float* sums) {
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) {
    __builtin_prefetch(later + i, 0, 3);
    (V::load(sums + i) + V::load(from + i)).store(sums + i);
  }
  if (const int rest = static_cast<int>(n - i); rest > 0)
    (V::load_partial(sums + i, rest) + load_partial<V>(from + i, rest)).store_partial(sums + i, rest);
}

template <class V, class From, class To> void sum_typed_rows(const RowSums& run) {
  constexpr std::int64_t prefetch_bytes = 4096;
  const auto* const from = static_cast<const From*>(run.from);
  auto* to = static_cast<To*>(run.to);
  const std::int64_t sources = static_cast<std::int64_t>(run.sources.size()), row_bytes = run.elements * sizeof(From);
  const std::int64_t ahead = std::clamp<std::int64_t>(prefetch_bytes / row_bytes, 1, 16);
  std::int64_t at = 0;
  for (const std::int64_t end : run.ends) {
    std::fill_n(run.sums, run.elements, 0.0f);
    for (; at < end; ++at)
      add_row<V>(from + run.sources[at], from + run.sources[std::min(at + ahead, sources - 1)], run.elements, run.sums);
    round_array<V>(run.sums, run.elements, to, run.streams);
    to += run.to_stride;
  }
  if (run.streams) V::store_fence();
}

}  // namespace

namespace RIDGE_BODY_ISA {
void copy_rows(const RowCopies& copies) {
  with_float_types(copies.from_dtype, copies.to_dtype,
                   [&](auto from, auto to) { copy_typed_rows<FloatLanes, decltype(from), decltype(to)>(copies); });
}
void sum_rows(const RowSums& sums) {
  with_float_types(sums.from_dtype, sums.to_dtype,
                   [&](auto from, auto to) { sum_typed_rows<FloatLanes, decltype(from), decltype(to)>(sums); });
}
}  // namespace RIDGE_BODY_ISA

}  // namespace ridge::ops
