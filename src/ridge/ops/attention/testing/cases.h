// Compares attention with fp64 for random heads, lengths, widths, masks, caps and strides. Inputs are small integers
// divided by eight, which are exact in every format. Every element of o is compared; memory between and after its rows
// must not change; keys and values after the end of a sequence are NaN. For CPU and device kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/model.h"

namespace ridge::ops::testing {

// Elements in memory in a problem's format.
class StoredElements {
 public:
  StoredElements(DType dtype, std::size_t count)
      : dtype_(dtype),
        element_bytes_(static_cast<std::size_t>(dtype_bits(dtype) / 8)),
        bytes_(count * element_bytes_, 0xff) {}  // NaN
  std::size_t size() const { return bytes_.size() / element_bytes_; }
  std::size_t bytes() const { return bytes_.size(); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double operator[](std::size_t i) const {
    if (dtype_ == DType::bf16) return to_float(read_as<Bf16>(i));
    return dtype_ == DType::f16 ? to_float(read_as<F16>(i)) : read_as<float>(i);
  }
  void set(std::size_t i, float x) {
    if (dtype_ == DType::bf16)
      write_bytes(i, to_bf16(x));
    else if (dtype_ == DType::f16)
      write_bytes(i, to_f16(x));
    else
      write_bytes(i, x);
  }
  bool has_same_bits(std::size_t i, const StoredElements& other) const {
    return std::memcmp(&bytes_[i * element_bytes_], &other.bytes_[i * element_bytes_], element_bytes_) == 0;
  }

 private:
  template <class T> T read_as(std::size_t i) const {
    T x;
    std::memcpy(&x, &bytes_[i * element_bytes_], sizeof x);
    return x;
  }
  template <class T> void write_bytes(std::size_t i, T x) { std::memcpy(&bytes_[i * element_bytes_], &x, sizeof x); }

  DType dtype_;
  std::size_t element_bytes_;
  std::vector<std::uint8_t> bytes_;
};

struct AttentionCase {
  AttentionProblem problem;
  StoredElements q, k, v, o, o_before;
  std::vector<float> lse;                             // With `guard_elements` extra elements at the end
  std::vector<int> lengths = {};                      // Lengths of ragged sequences
  std::vector<int> row_starts = {}, key_starts = {};  // Starts of packed sequences
  std::vector<int> pages = {};
  static constexpr std::size_t guard_elements = 4096;
  static constexpr float guard_value = -12345;

  // Return the rows and the problem of sequence b.
  std::int64_t rows_of(std::int64_t b) const { return problem.packed ? length_between(row_starts, b) : problem.rows; }
  AttentionProblem problem_of(std::int64_t b) const {
    if (problem.packed && !problem.pages) return with_length(problem, length_between(key_starts, b));
    return with_length(problem, lengths.empty() ? 0 : lengths[b]);
  }
  // Return the offsets of row r of head h of q or o, of key t of k or v, and of an element of lse, for sequence b.
  std::size_t row_offset(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) const {
    return problem.packed ? element_offset(l, 0, h, row_starts[b] + r) : element_offset(l, b, h, r);
  }
  std::size_t key_offset(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t t) const {
    if (problem.pages) {
      const std::int64_t rows = problem.pages->rows;
      return element_offset(l, pages[b * (problem.keys / rows) + t / rows], h, t % rows);
    }
    return problem.packed ? element_offset(l, 0, h, key_starts[b] + t) : element_offset(l, b, h, t);
  }
  std::size_t lse_offset(std::int64_t b, std::int64_t h, std::int64_t r) const {
    if (problem.packed) return element_offset({0, problem.packed->rows, 1}, 0, h, row_starts[b] + r);
    return element_offset({problem.heads * problem.rows, problem.rows, 1}, b, h, r);
  }
  static std::size_t element_offset(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) {
    return static_cast<std::size_t>(b * l.outer + h * l.head + r * l.row);
  }

 private:
  static std::int64_t length_between(const std::vector<int>& starts, std::int64_t b) {
    return starts[static_cast<std::size_t>(b) + 1] - starts[b];
  }
};

class AttentionCases {
 public:
  AttentionCases(unsigned seed, std::vector<DType> dtypes) : random_(seed), dtypes_(std::move(dtypes)) {}

  // Returns a random case whose widths and gaps between rows are multiples of `alignment` elements.
  AttentionCase next_case(int alignment) {
    AttentionProblem p = random_problem(alignment);
    std::vector<int> lengths, row_starts, key_starts, pages;
    if (p.lengths) lengths = random_lengths(p);
    if (p.pages) pages = make_random_pages(p, alignment);
    if (p.packed) {
      row_starts = random_starts(p.outer, p.rows);
      p.packed->rows = row_starts.back();
      p.q = random_layout(p.heads, p.packed->rows, p.width, alignment);
      p.o = random_layout(p.heads, p.packed->rows, p.width, alignment);
      if (!p.pages) {
        key_starts = random_starts(p.outer, p.keys);
        p.packed->keys = key_starts.back();
        p.k = random_layout(p.key_heads, p.packed->keys, p.width, alignment);
        p.v = random_layout(p.key_heads, p.packed->keys, p.width, alignment);
      }
    }
    const std::int64_t rows = p.packed ? p.packed->rows : p.rows, row_groups = p.packed ? 1 : p.outer;
    std::int64_t keys = p.packed ? p.packed->keys : p.keys, key_groups = row_groups;
    if (p.pages) {
      keys = p.pages->rows;
      key_groups = p.pages->count;
    }
    AttentionCase out{
        p,
        random_elements(p, p.q, rows, {row_groups, p.heads}, false),
        random_elements(p, p.k, keys, {key_groups, p.key_heads}, false),
        random_elements(p, p.v, keys, {key_groups, p.key_heads}, false),
        random_elements(p, p.o, rows, {row_groups, p.heads}, true),
        random_elements(p, p.o, rows, {row_groups, p.heads}, true),
        std::vector<float>(static_cast<std::size_t>(row_groups * p.heads * rows) + AttentionCase::guard_elements,
                           AttentionCase::guard_value),
        lengths,
        row_starts,
        key_starts,
        pages};
    if (!p.packed || p.pages) poison_unused(out);
    return out;
  }

 protected:
  int random_below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Returns a layout with contiguous rows or interleaved heads and random gaps.
  HeadsLayout random_layout(std::int64_t heads, std::int64_t rows, std::int64_t width, int alignment) {
    const std::int64_t gap = random_below(4) == 0 ? alignment * (1 + random_below(3)) : 0;
    if (random_below(2) == 0) {
      const std::int64_t row = heads * width + gap;
      return {rows * row + gap, width, row};
    }
    const std::int64_t row = width + gap;
    return {heads * rows * row, rows * row, row};
  }
  AttentionProblem random_problem(int alignment) {
    AttentionProblem p;
    p.dtype = dtypes_[random_below(static_cast<int>(dtypes_.size()))];
    p.outer = 1 + random_below(3);
    p.key_heads = 1 + random_below(3);
    p.heads = p.key_heads * (1 + random_below(3));
    p.rows = 1 + random_below(400);
    if (random_below(3) == 0) {
      p.rows = 1 + random_below(8);
      p.heads = p.key_heads * (1 + random_below(8));
    }
    p.keys = random_below(3) == 0 ? p.rows : 1 + random_below(600);
    constexpr int widths[] = {64, 128, 256, 96, 192, 8, 80, 40, 136, 248};
    p.width = widths[random_below(10)] - random_below(8) / alignment * alignment;
    p.width = std::max<std::int64_t>(p.width, 1);
    p.scale = random_below(2) == 0 ? 1 / std::sqrt(static_cast<double>(p.width)) : 0.01 * (1 + random_below(60));
    if (random_below(4) == 0) p.cap = 1 + random_below(50);
    const int mask = random_below(4);
    if (mask == 1) p.high = 0;
    if (mask == 2) p.high = p.keys - p.rows;
    if (mask == 3) {
      p.high = random_below(40) - 10;
      p.low = p.high - random_below(200);
    }
    if (random_below(2) == 0) set_random_lengths(p);
    if (p.lengths && p.lengths->length_offset <= 0 && random_below(3) == 0) p.packed = AttentionProblem::Packed{};
    if (random_below(4) == 0) p.pages = AttentionProblem::Pages{};
    p.q = random_layout(p.heads, p.rows, p.width, alignment);
    p.k = random_layout(p.key_heads, p.keys, p.width, alignment);
    p.v = random_layout(p.key_heads, p.keys, p.width, alignment);
    p.o = random_layout(p.heads, p.rows, p.width, alignment);
    return p;
  }
  // Usually no key after the sequence's end is visible. None, one or both bounds of the band depend on the length.
  void set_random_lengths(AttentionProblem& p) {
    const auto unbounded = AttentionProblem::unbounded;
    p.lengths = AttentionProblem::Lengths{};
    p.lengths->length_offset = random_below(6) == 0 ? unbounded : 0;
    if (random_below(4) == 0) p.lengths->length_offset = random_below(5) - 2;
    if (p.high != unbounded && random_below(2) == 0) {
      p.lengths->high_from_length = true;
      p.high = random_below(2) == 0 ? -p.rows : random_below(100) - 50 - p.rows;
      if (p.low != -unbounded) p.low = p.high - random_below(200);
    }
    p.lengths->low_from_length = p.low != -unbounded && p.lengths->high_from_length;
  }
  std::vector<int> random_lengths(const AttentionProblem& p) {
    std::vector<int> out;
    for (std::int64_t b = 0; b < p.outer; ++b) {
      const int keys = static_cast<int>(p.keys);
      const int ends[] = {0, 1, keys, keys + 1000, 2147483647, -5};
      out.push_back(random_below(5) == 0 ? ends[random_below(6)] : 1 + random_below(keys));
    }
    return out;
  }
  // Returns the starts of `count` sequences, of which one has `max_length` rows.
  std::vector<int> random_starts(std::int64_t count, std::int64_t max_length) {
    std::vector<int> out{0};
    const int longest = random_below(static_cast<int>(count));
    for (int b = 0; b < count; ++b)
      out.push_back(out.back() +
                    (b == longest ? static_cast<int>(max_length) : random_below(static_cast<int>(max_length) + 1)));
    return out;
  }
  // Makes the problem paged, with some unused pages, and returns a page table in random order.
  std::vector<int> make_random_pages(AttentionProblem& p, int alignment) {
    constexpr int sizes[] = {16, 8, 24, 64, 128, 256, 40};
    p.pages->rows = sizes[random_below(7)] + (alignment == 1 ? random_below(3) : 0);
    const std::int64_t pages_per_sequence = (p.keys + p.pages->rows - 1) / p.pages->rows;
    p.keys = pages_per_sequence * p.pages->rows;
    p.pages->count = p.outer * pages_per_sequence + random_below(4);
    p.k = random_layout(p.key_heads, p.pages->rows, p.width, alignment);
    p.v = random_layout(p.key_heads, p.pages->rows, p.width, alignment);
    std::vector<int> out(p.pages->count);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int>(i);
    std::shuffle(out.begin(), out.end(), random_);
    out.resize(p.outer * pages_per_sequence);
    return out;
  }
  // Writes NaN after the end of each sequence and invalid page numbers.
  static void poison_unused(AttentionCase& x) {
    const AttentionProblem& p = x.problem;
    for (std::int64_t b = 0; b < p.outer; ++b) {
      const std::int64_t keys = x.problem_of(b).keys;
      for (std::int64_t t = keys; t < p.keys; ++t)
        for (std::int64_t h = 0; h < p.key_heads; ++h)
          for (std::size_t e = 0; e < static_cast<std::size_t>(p.width); ++e) {
            x.k.set(x.key_offset(p.k, b, h, t) + e, NAN);
            x.v.set(x.key_offset(p.v, b, h, t) + e, NAN);
          }
      if (p.pages)
        for (std::int64_t page = (keys + p.pages->rows - 1) / p.pages->rows; page < p.keys / p.pages->rows; ++page)
          x.pages[b * (p.keys / p.pages->rows) + page] = -1000000;
    }
  }
  struct OuterHeads {
    std::int64_t outer, heads;
  };
  StoredElements random_elements(const AttentionProblem& p, const HeadsLayout& x, std::int64_t rows, OuterHeads count,
                                 bool is_output) {
    const std::int64_t heads = count.heads;
    StoredElements out(p.dtype, static_cast<std::size_t>((count.outer - 1) * x.outer + (heads - 1) * x.head +
                                                         (rows - 1) * x.row + p.width + (is_output ? 64 : 0)));
    if (is_output) return out;
    for (std::int64_t b = 0; b < count.outer; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t e = 0; e < p.width; ++e)
            out.set(static_cast<std::size_t>(b * x.outer + h * x.head + r * x.row + e),
                    static_cast<float>(random_below(33) - 16) / 8);
    return out;
  }

  std::mt19937 random_;
  std::vector<DType> dtypes_;
};

inline std::string describe_problem(const AttentionProblem& p) {
  const auto number = [](std::int64_t x) { return std::to_string(x); };
  std::string out = std::string(dtype_name(p.dtype)) + " " + number(p.outer) + "x" + number(p.heads) + " heads on " +
                    number(p.key_heads) + ", " + number(p.rows) + " rows, " + number(p.keys) + " keys, width " +
                    number(p.width) + ", scale " + std::to_string(p.scale) + ", cap " + std::to_string(p.cap) +
                    ", band " + number(p.low) + " " + number(p.high);
  if (p.lengths) {
    out += ", lengths and " + number(p.lengths->length_offset);
    if (p.lengths->low_from_length) out += ", low moves";
    if (p.lengths->high_from_length) out += ", high moves";
  }
  if (p.packed) out += ", packed to " + number(p.packed->rows) + " and " + number(p.packed->keys);
  if (p.pages) out += ", in " + number(p.pages->count) + " pages of " + number(p.pages->rows);
  return out;
}

// The attention result of one query row in fp64.
class ExactRow {
 public:
  std::vector<double> o, magnitude;                  // Row of o; sums of the absolute values of its terms
  double lse = 0, max_score = 0, max_abs_score = 0;  // Largest visible score; largest absolute visible score

  ExactRow(const AttentionCase& x, std::int64_t b, std::int64_t h, std::int64_t r)
      : o(static_cast<std::size_t>(x.problem.width)), magnitude(o) {
    const AttentionProblem p = x.problem_of(b);
    const std::int64_t key_head = h / (p.heads / p.key_heads);
    const std::size_t q = x.row_offset(p.q, b, h, r);
    std::vector<double> weights(p.keys);
    double sum = 0;
    max_score = -INFINITY;
    for (std::int64_t t = 0; t < p.keys; ++t) {
      double s = 0;
      for (std::size_t e = 0; e < o.size(); ++e) s += x.q[q + e] * x.k[x.key_offset(p.k, b, key_head, t) + e];
      s *= p.scale;
      if (p.cap > 0) s = p.cap * std::tanh(s / p.cap);
      const bool is_seen = t - r >= p.low && t - r <= p.high;
      if (is_seen) max_abs_score = std::max(max_abs_score, std::fabs(s));
      weights[t] = is_seen ? s : -INFINITY;
      max_score = std::max(max_score, weights[t]);
    }
    for (double& w : weights) sum += w = std::exp(w - max_score);
    lse = max_score + std::log(sum);
    if (max_score == -INFINITY) std::fill(o.begin(), o.end(), NAN);
    for (std::int64_t t = 0; t < p.keys; ++t)
      for (std::size_t e = 0; e < o.size(); ++e) {
        const double part = weights[t] / sum * x.v[x.key_offset(p.v, b, key_head, t) + e];
        o[e] += part;
        magnitude[e] += std::fabs(part);
      }
  }
};

// Returns the largest ratio of error to allowed error; 1e30 if a log-sum-exp is wrong, 2e30 if a NaN is wrong, 3e30 if
// other memory changed. `weight_error` and `result_rounding` are the relative rounding errors of weights and of o; sums
// of weights are not rounded. Scores are f32; the error of tanh is at most 1.3e-6 of the cap.
inline double max_error_ratio(const AttentionCase& x, double weight_error, double result_rounding) {
  const AttentionProblem& p = x.problem;
  double worst = 0;
  std::vector<bool> is_result(x.o.size());
  for (std::int64_t b = 0; b < p.outer; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t r = 0; r < x.rows_of(b); ++r) {
        const ExactRow exact(x, b, h, r);
        const float lse = x.lse[x.lse_offset(b, h, r)];
        if (exact.max_score > -INFINITY && !(std::fabs(lse - exact.lse) <= 1e-4 * (1 + std::fabs(exact.lse))))
          return 1e30;
        for (std::size_t e = 0; e < exact.o.size(); ++e) {
          const std::size_t offset = x.row_offset(p.o, b, h, r) + e;
          is_result[offset] = true;
          const double got = x.o[offset];
          if (std::isnan(exact.o[e]) != std::isnan(got)) return 2e30;
          if (std::isnan(got)) continue;
          const double allowed = (weight_error + 3e-7 * exact.max_abs_score + 1.3e-6 * p.cap) * exact.magnitude[e] +
                                 result_rounding * std::fabs(exact.o[e]) + 1e-6;
          worst = std::max(worst, std::fabs(got - exact.o[e]) / allowed);
        }
      }
  for (std::size_t i = x.lse.size() - AttentionCase::guard_elements; i < x.lse.size(); ++i)
    if (x.lse[i] != AttentionCase::guard_value) return 3e30;
  for (std::size_t i = 0; i < x.o.size(); ++i)
    if (!is_result[i] && !x.o.has_same_bits(i, x.o_before)) return 3e30;
  return worst;
}

}  // namespace ridge::ops::testing
