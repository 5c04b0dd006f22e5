// Top-k and sorting by lines. If few elements are asked for, a scan collects those above a threshold, which is the
// smallest of the largest found so far; for 50 of 32,000 random values it collects some 400. Otherwise all keys are
// sorted. All orders give the same result, because no two ranked keys are equal.
#include <algorithm>
#include <array>
#include <functional>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/indexed.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/loops/strided.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

constexpr std::int64_t values_piece = 4096;

// Sorts keys, which are in the order of their indices, by their upper halves: stable, from the largest. Three passes of
// a radix sort with 11 bits.
void sort_by_radix(std::vector<RankedKey>& keys, std::vector<RankedKey>& scratch) {
  constexpr int digit_bits = 11, digits = 3, first_bit = 32;
  constexpr std::size_t buckets = std::size_t{1} << digit_bits;
  std::vector<std::array<std::uint32_t, buckets>> starts(digits);
  const auto bucket_of = [](RankedKey key, int digit) {
    return static_cast<std::size_t>(~key >> (first_bit + digit * digit_bits)) % buckets;
  };
  for (const RankedKey key : keys)
    for (int d = 0; d < digits; ++d) ++starts[d][bucket_of(key, d)];
  scratch.resize(keys.size());
  for (int d = 0; d < digits; ++d) {
    std::uint32_t start = 0;
    for (std::uint32_t& bucket : starts[d]) start += std::exchange(bucket, start);
    for (const RankedKey key : keys) scratch[starts[d][bucket_of(key, d)]++] = key;
    keys.swap(scratch);
  }
}

std::int64_t index_of(RankedKey key) { return static_cast<std::int64_t>(~static_cast<std::uint32_t>(key)); }

// Stores the elements of a line in the order of their keys.
void store_values(const TopKLoops& l, const StridedElements& line, const std::vector<RankedKey>& keys, void* result,
                  std::int64_t first) {
  std::array<float, 256> values;
  for (std::int64_t begin = 0; begin < l.count; begin += static_cast<std::int64_t>(values.size())) {
    const std::int64_t n = std::min(l.count - begin, static_cast<std::int64_t>(values.size()));
    with_stored_type(l.values, [&]<class T>() {
      const T* const from = static_cast<const T*>(line.data) + line.first;
      for (std::int64_t i = 0; i < n; ++i)
        values[i] = static_cast<float>(to_double(from[index_of(keys[begin + i]) * line.stride]));
    });
    store_floats(values.data(), n, {l.result, result, first + begin * l.result_stride, l.result_stride});
  }
}

// Finds the largest elements of lines on one thread.
class LineSelector {
 public:
  explicit LineSelector(const TopKLoops& l) : l_(l) {}

  // Returns the `count` largest keys of a line, from the largest.
  const std::vector<RankedKey>& select(const StridedElements& line) {
    constexpr std::int64_t min_ratio = 8, min_radix = 256;
    const std::int64_t n = l_.axis.extent, k = l_.count;
    const bool collects = k * min_ratio <= n;
    collect(line, collects ? std::max(2 * k, std::int64_t{256}) + key_scan_block : n + key_scan_block, collects);
    if (!collects && n >= min_radix) {
      sort_by_radix(keys_, scratch_);
      return keys_;
    }
    if (k < static_cast<std::int64_t>(keys_.size())) keep_largest(k);
    std::sort(keys_.begin(), keys_.end(), std::greater<>());
    return keys_;
  }

 private:
  void keep_largest(std::int64_t k) {
    std::nth_element(keys_.begin(), keys_.begin() + (k - 1), keys_.end(), std::greater<>());
    keys_.resize(k);
  }

  // Collects keys, in the order of the elements unless the capacity is reached. The largest are kept then; an element
  // that equals the smallest of them comes later, and is not one of the largest.
  void collect(const StridedElements& line, std::int64_t capacity, bool drops) {
    KeyScan scan{.ascending = l_.ascending, .capacity = capacity};
    for (std::int64_t first = 0; first < l_.axis.extent; first += values_piece) {
      scan.elements = std::min(values_piece, l_.axis.extent - first);
      scan.first_index = first;
      scan.at = 0;
      scan.values = load_piece(line, first, scan.elements);
      while (scan.at < scan.elements) {
        keys_.resize(capacity);
        scan.keys = keys_.data();
        pool::select_for_isa(plain::scan_keys, avx2::scan_keys, avx512::scan_keys)(scan);
        if (!drops || scan.count + key_scan_block <= capacity) continue;
        keys_.resize(scan.count);
        keep_largest(l_.count);
        scan.count = l_.count;
        scan.threshold = static_cast<std::uint32_t>(keys_.back() >> 32);
      }
    }
    keys_.resize(scan.count);
  }
  const float* load_piece(const StridedElements& line, std::int64_t first, std::int64_t n) {
    if (line.are_floats()) return line.floats() + first;
    load_floats(line.from(first), n, values_);
    return values_;
  }

  const TopKLoops& l_;
  std::vector<RankedKey> keys_, scratch_;
  alignas(64) float values_[values_piece];
};

}  // namespace

void run_loops(const TopKLoops& l, std::span<void* const> data, int threads) {
  const std::vector<LoopAxis> axes = merge_loop_axes(l.axes);
  run_in_parts(count_points(axes), min_elements_per_part / l.axis.extent, threads,
               [&](std::int64_t begin, std::int64_t end) {
                 LineSelector selector(l);
                 LoopCursor cursor(axes, begin);
                 for (std::int64_t line = begin; line < end; ++line, cursor.advance()) {
                   const LoopAxis& at = cursor.offsets();
                   const StridedElements from{l.values, data[0], at.values, l.axis.values};
                   const auto& keys = selector.select(from);
                   if (l.stores_values) {
                     store_values(l, from, keys, data[1], at.result);
                     continue;
                   }
                   with_index_type(l.result, [&]<class Index>() {
                     Index* const to = static_cast<Index*>(data[1]) + at.result;
                     for (std::int64_t i = 0; i < l.count; ++i)
                       to[i * l.result_stride] = static_cast<Index>(index_of(keys[i]));
                   });
                 }
               });
}

}  // namespace ridge::ops
