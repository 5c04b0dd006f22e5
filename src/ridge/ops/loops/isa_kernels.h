// Functions of the loops that are compiled once for each instruction set. Internal to the kernels.
#pragma once

#include <cstdint>
#include <span>

#include "ridge/base/dtype.h"

namespace ridge::ops {

struct RowOffsets {  // First elements of a row in the source and in the destination.
  std::int64_t from = 0, to = 0;
};
// Rows of contiguous elements to copy. Dtypes are f32, bf16 or f16.
struct RowCopies {
  DType from_dtype = DType::f32, to_dtype = DType::f32;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0;  // Number of elements of a row.
  bool streams = false;       // True if stores bypass the caches.
  bool prefetches = false;    // True if the rows come from memory.
  std::span<const RowOffsets> rows = {};
};
// Sums of rows in f32, in the order of `sources`. Row d of the result is the sum of the rows that begin at the elements
// sources[ends[d - 1]] … sources[ends[d] - 1], or zeros; ends[-1] is read as 0.
struct RowSums {
  DType from_dtype = DType::f32, to_dtype = DType::f32;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0, to_stride = 0;  // Number of elements of a row; distance of the result's rows.
  bool streams = false;                      // True if stores bypass the caches.
  float* sums = nullptr;                     // Scratch for one row.
  std::span<const std::int64_t> ends = {}, sources = {};
};

// Running sums of neighbouring lines, each with an f64 sum of its own in `sums`: for each step, adds a row of x to the
// sums and stores these, rounded, as a row of y. Strides are between rows, in elements.
struct RunningSumRows {
  DType from_dtype = DType::f32, to_dtype = DType::f32;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t lines = 0, steps = 0, from_stride = 0, to_stride = 0;
  double* sums = nullptr;
};
constexpr std::int64_t max_running_sum_lines = 1024;  // Their sums take 8 KiB of the L1.

// Running sums of contiguous lines. The sum of the elements before line i is before[i], or 0. Totals, if given, receive
// each line's sum without that; if `to` is null, nothing else is computed.
struct RunningSumLines {
  DType from_dtype = DType::f32, to_dtype = DType::f32;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t elements = 0;  // Number of elements of a line.
  std::span<const RowOffsets> lines = {};
  const double* before = nullptr;
  double* totals = nullptr;
};
// A line is summed in chunks: each element is the sum of all chunks before its own plus that of its chunk up to it.
// Lines that are divided among threads are divided at chunks, so that the sums are the same.
constexpr std::int64_t running_sum_chunk = 2048;

// Lines of contiguous elements as the columns of a matrix of floats, or the columns as lines. The first element of line
// i is at lines[i]; column i of the matrix begins at tile + i.
struct LineTransposition {
  DType dtype = DType::f32;
  void* data = nullptr;
  std::span<const std::int64_t> lines = {};
  std::int64_t elements = 0;  // Number of elements of a line: rows of the matrix.
  float* tile = nullptr;
  std::int64_t row_stride = 0;
  bool stores = false;  // True if the lines are written, false if they are read.
};

// Collects the elements of a line whose keys are above a threshold. Keys are ordered as the values are; -0 and +0 have
// the same key, and NaNs the lowest. A ranked key has the key in its upper half, and below it 2^32 - 1 - the element's
// index, so that all ranked keys differ and the first of equal values has the highest.
using RankedKey = std::uint64_t;
struct KeyScan {
  const float* values = nullptr;
  std::int64_t elements = 0, first_index = 0;
  std::int64_t at = 0;          // Next element; a scan ends at `elements`, or when `keys` may become full.
  std::uint32_t threshold = 0;  // Keys are positive.
  bool ascending = false;       // Reverses the order of keys, except of NaNs.
  RankedKey* keys = nullptr;
  std::int64_t count = 0, capacity = 0;
};
constexpr std::int64_t key_scan_block = 64;  // A scan needs this much free capacity.

// The elementwise maximum or sum of contiguous rows of x, in f32. Rows begin at the elements `rows`; without rows the
// result is -inf or 0.
struct PoolRows {
  DType dtype = DType::f32;
  const void* x = nullptr;
  std::span<const std::int64_t> rows = {};
  std::int64_t elements = 0;
  bool is_maximum = true;
  float* result = nullptr;
};
// Maxima or sums of the windows along a padded row. The row is stored as `stride` phases of `phase` elements: element i
// is in phase i % stride, so that the inputs of consecutive outputs are contiguous.
struct PoolWindows {
  const float* padded = nullptr;
  std::int64_t phase = 0, stride = 1, dilation = 1, kernel = 1, outputs = 0;
  bool is_maximum = true;
  float* result = nullptr;
};

// Cosines and sines of a position times each frequency, accurate to 2^-22 if the products are below 2^40.
struct RotaryAngles {
  double position = 0;
  std::span<const double> frequencies = {};
  float *cosines = nullptr, *sines = nullptr;
};
// Rotates pairs of x: i and i + pairs, or 2i and 2i + 1 if they are interleaved.
struct RotaryPairs {
  const float *x = nullptr, *cosines = nullptr, *sines = nullptr;
  std::int64_t pairs = 0;
  bool interleaved = false;
  float* y = nullptr;
};

// Defined in bodies, each of which is compiled once for each instruction set.
namespace plain {
void copy_rows(const RowCopies& copies);
void sum_rows(const RowSums& sums);
void run_running_sums(const RunningSumRows& rows);
void run_running_sums(const RunningSumLines& lines);
void transpose_lines(const LineTransposition& run);
void scan_keys(KeyScan& scan);
void pool_rows(const PoolRows& run);
void pool_windows(const PoolWindows& run);
void fill_rotary_angles(const RotaryAngles& run);
void rotate_pairs(const RotaryPairs& run);
}  // namespace plain
namespace avx2 {
void copy_rows(const RowCopies& copies);
void sum_rows(const RowSums& sums);
void run_running_sums(const RunningSumRows& rows);
void run_running_sums(const RunningSumLines& lines);
void transpose_lines(const LineTransposition& run);
void scan_keys(KeyScan& scan);
void pool_rows(const PoolRows& run);
void pool_windows(const PoolWindows& run);
void fill_rotary_angles(const RotaryAngles& run);
void rotate_pairs(const RotaryPairs& run);
}  // namespace avx2
namespace avx512 {
void copy_rows(const RowCopies& copies);
void sum_rows(const RowSums& sums);
void run_running_sums(const RunningSumRows& rows);
void run_running_sums(const RunningSumLines& lines);
void transpose_lines(const LineTransposition& run);
void scan_keys(KeyScan& scan);
void pool_rows(const PoolRows& run);
void pool_windows(const PoolWindows& run);
void fill_rotary_angles(const RotaryAngles& run);
void rotate_pairs(const RotaryPairs& run);
}  // namespace avx512

// These run the functions of the active instruction set.
void copy_rows(const RowCopies& copies);
void sum_rows(const RowSums& sums);

}  // namespace ridge::ops
