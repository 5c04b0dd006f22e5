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
class Elements {
 public:
  Elements(DType dtype, std::size_t count)
      : dtype_(dtype), each_(static_cast<std::size_t>(bits(dtype) / 8)), bytes_(count * each_, 0xff) {}  // NaN
  std::size_t size() const { return bytes_.size() / each_; }
  std::size_t bytes() const { return bytes_.size(); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  double operator[](std::size_t i) const {
    if (dtype_ == DType::bf16) return to_float(as<Bf16>(i));
    return dtype_ == DType::f16 ? to_float(as<F16>(i)) : as<float>(i);
  }
  void set(std::size_t i, float x) {
    if (dtype_ == DType::bf16)
      put(i, to_bf16(x));
    else if (dtype_ == DType::f16)
      put(i, to_f16(x));
    else
      put(i, x);
  }
  bool same(std::size_t i, const Elements& other) const {
    return std::memcmp(&bytes_[i * each_], &other.bytes_[i * each_], each_) == 0;
  }

 private:
  template <class T> T as(std::size_t i) const {
    T x;
    std::memcpy(&x, &bytes_[i * each_], sizeof x);
    return x;
  }
  template <class T> void put(std::size_t i, T x) { std::memcpy(&bytes_[i * each_], &x, sizeof x); }

  DType dtype_;
  std::size_t each_;
  std::vector<std::uint8_t> bytes_;
};

struct AttentionCase {
  AttentionProblem problem;
  Elements q, k, v, o, before;
  std::vector<float> lse;                             // With `guard_elements` extra elements at the end
  std::vector<int> lengths = {};                      // Lengths of ragged sequences
  std::vector<int> row_starts = {}, key_starts = {};  // Starts of packed sequences
  std::vector<int> pages = {};
  static constexpr std::size_t behind = 4096;
  static constexpr float untouched = -12345;

  // Return the rows and the problem of sequence b.
  std::int64_t rows_of(std::int64_t b) const { return problem.packed ? between(row_starts, b) : problem.rows; }
  AttentionProblem problem_of(std::int64_t b) const {
    if (problem.packed && !problem.pages) return of_length(problem, between(key_starts, b));
    return of_length(problem, lengths.empty() ? 0 : lengths[static_cast<std::size_t>(b)]);
  }
  // Return the offset of row r of a head of q or o, of key t of k or v, and of an element of lse.
  std::size_t row_place(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) const {
    return problem.packed ? at(l, 0, h, row_starts[static_cast<std::size_t>(b)] + r) : at(l, b, h, r);
  }
  std::size_t key_place(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t t) const {
    if (problem.pages) {
      const std::int64_t rows = problem.pages->rows;
      return at(l, pages[static_cast<std::size_t>(b * (problem.keys / rows) + t / rows)], h, t % rows);
    }
    return problem.packed ? at(l, 0, h, key_starts[static_cast<std::size_t>(b)] + t) : at(l, b, h, t);
  }
  std::size_t lse_place(std::int64_t b, std::int64_t h, std::int64_t r) const {
    if (problem.packed) return at({0, problem.packed->rows, 1}, 0, h, row_starts[static_cast<std::size_t>(b)] + r);
    return at({problem.heads * problem.rows, problem.rows, 1}, b, h, r);
  }
  static std::size_t at(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) {
    return static_cast<std::size_t>(b * l.outer + h * l.head + r * l.row);
  }

 private:
  static std::int64_t between(const std::vector<int>& starts, std::int64_t b) {
    return starts[static_cast<std::size_t>(b) + 1] - starts[static_cast<std::size_t>(b)];
  }
};

class AttentionCases {
 public:
  AttentionCases(unsigned seed, std::vector<DType> dtypes) : random_(seed), dtypes_(std::move(dtypes)) {}

  // Widths and gaps are multiples of `alignment`.
  AttentionCase next(int grain) {
    AttentionProblem p = problem(grain);
    std::vector<int> lengths, row_starts, key_starts, pages;
    if (p.lengths) lengths = lengths_of(p);
    if (p.pages) pages = put_in_pages(p, grain);
    if (p.packed) {
      row_starts = starts_of(p.outer, p.rows);
      p.packed->rows = row_starts.back();
      p.q = layout(p.heads, p.packed->rows, p.width, grain);
      p.o = layout(p.heads, p.packed->rows, p.width, grain);
      if (!p.pages) {
        key_starts = starts_of(p.outer, p.keys);
        p.packed->keys = key_starts.back();
        p.k = layout(p.key_heads, p.packed->keys, p.width, grain);
        p.v = layout(p.key_heads, p.packed->keys, p.width, grain);
      }
    }
    const std::int64_t rows = p.packed ? p.packed->rows : p.rows, of_rows = p.packed ? 1 : p.outer;
    std::int64_t keys = p.packed ? p.packed->keys : p.keys, of_keys = of_rows;
    if (p.pages) {
      keys = p.pages->rows;
      of_keys = p.pages->count;
    }
    AttentionCase out{p,
                      filled(p, p.q, rows, {of_rows, p.heads}, false),
                      filled(p, p.k, keys, {of_keys, p.key_heads}, false),
                      filled(p, p.v, keys, {of_keys, p.key_heads}, false),
                      filled(p, p.o, rows, {of_rows, p.heads}, true),
                      filled(p, p.o, rows, {of_rows, p.heads}, true),
                      std::vector<float>(static_cast<std::size_t>(of_rows * p.heads * rows) + AttentionCase::behind,
                                         AttentionCase::untouched),
                      lengths,
                      row_starts,
                      key_starts,
                      pages};
    if (!p.packed || p.pages) spoil(out);
    return out;
  }

 protected:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Returns a layout with contiguous rows or interleaved heads and random gaps.
  HeadsLayout layout(std::int64_t heads, std::int64_t rows, std::int64_t width, int grain) {
    const std::int64_t gap = below(4) == 0 ? grain * (1 + below(3)) : 0;
    if (below(2) == 0) {
      const std::int64_t row = heads * width + gap;
      return {rows * row + gap, width, row};
    }
    const std::int64_t row = width + gap;
    return {heads * rows * row, rows * row, row};
  }
  AttentionProblem problem(int grain) {
    AttentionProblem p;
    p.dtype = dtypes_[static_cast<std::size_t>(below(static_cast<int>(dtypes_.size())))];
    p.outer = 1 + below(3);
    p.key_heads = 1 + below(3);
    p.heads = p.key_heads * (1 + below(3));
    p.rows = 1 + below(400);
    if (below(3) == 0) {
      p.rows = 1 + below(8);
      p.heads = p.key_heads * (1 + below(8));
    }
    p.keys = below(3) == 0 ? p.rows : 1 + below(600);
    constexpr int widths[] = {64, 128, 256, 96, 192, 8, 80, 40, 136, 248};
    p.width = widths[below(10)] - below(8) / grain * grain;
    p.width = std::max<std::int64_t>(p.width, 1);
    p.scale = below(2) == 0 ? 1 / std::sqrt(static_cast<double>(p.width)) : 0.01 * (1 + below(60));
    if (below(4) == 0) p.cap = 1 + below(50);
    const int mask = below(4);
    if (mask == 1) p.high = 0;
    if (mask == 2) p.high = p.keys - p.rows;
    if (mask == 3) {
      p.high = below(40) - 10;
      p.low = p.high - below(200);
    }
    if (below(2) == 0) set_lengths(p);
    if (p.lengths && p.lengths->limit <= 0 && below(3) == 0) p.packed.emplace();
    if (below(4) == 0) p.pages.emplace();
    p.q = layout(p.heads, p.rows, p.width, grain);
    p.k = layout(p.key_heads, p.keys, p.width, grain);
    p.v = layout(p.key_heads, p.keys, p.width, grain);
    p.o = layout(p.heads, p.rows, p.width, grain);
    return p;
  }
  // Visible keys end with the sequence. Either, both or neither limit of the band depends on its length.
  void set_lengths(AttentionProblem& p) {
    const auto far = AttentionProblem::far;
    p.lengths.emplace();
    p.lengths->limit = below(6) == 0 ? far : 0;
    if (below(4) == 0) p.lengths->limit = below(5) - 2;
    if (p.high != far && below(2) == 0) {
      p.lengths->high = true;
      p.high = below(2) == 0 ? -p.rows : below(100) - 50 - p.rows;
      if (p.low != -far) p.low = p.high - below(200);
    }
    p.lengths->low = p.low != -far && p.lengths->high;
  }
  std::vector<int> lengths_of(const AttentionProblem& p) {
    std::vector<int> out;
    for (std::int64_t b = 0; b < p.outer; ++b) {
      const int keys = static_cast<int>(p.keys);
      const int ends[] = {0, 1, keys, keys + 1000, 2147483647, -5};
      out.push_back(below(5) == 0 ? ends[below(6)] : 1 + below(keys));
    }
    return out;
  }
  // Returns the starts of `count` sequences, of which one has `max_length` rows.
  std::vector<int> starts_of(std::int64_t count, std::int64_t most) {
    std::vector<int> out{0};
    const int longest = below(static_cast<int>(count));
    for (int b = 0; b < count; ++b)
      out.push_back(out.back() + (b == longest ? static_cast<int>(most) : below(static_cast<int>(most) + 1)));
    return out;
  }
  // Puts the keys in pages in random order; some pages stay unused.
  std::vector<int> put_in_pages(AttentionProblem& p, int grain) {
    constexpr int sizes[] = {16, 8, 24, 64, 128, 256, 40};
    p.pages->rows = sizes[below(7)] + (grain == 1 ? below(3) : 0);
    const std::int64_t each = (p.keys + p.pages->rows - 1) / p.pages->rows;
    p.keys = each * p.pages->rows;
    p.pages->count = p.outer * each + below(4);
    p.k = layout(p.key_heads, p.pages->rows, p.width, grain);
    p.v = layout(p.key_heads, p.pages->rows, p.width, grain);
    std::vector<int> out(static_cast<std::size_t>(p.pages->count));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int>(i);
    std::shuffle(out.begin(), out.end(), random_);
    out.resize(static_cast<std::size_t>(p.outer * each));
    return out;
  }
  // Writes NaN after the end of each sequence and invalid page numbers.
  static void spoil(AttentionCase& x) {
    const AttentionProblem& p = x.problem;
    for (std::int64_t b = 0; b < p.outer; ++b) {
      const std::int64_t keys = x.problem_of(b).keys;
      for (std::int64_t t = keys; t < p.keys; ++t)
        for (std::int64_t h = 0; h < p.key_heads; ++h)
          for (std::size_t e = 0; e < static_cast<std::size_t>(p.width); ++e) {
            x.k.set(x.key_place(p.k, b, h, t) + e, NAN);
            x.v.set(x.key_place(p.v, b, h, t) + e, NAN);
          }
      if (p.pages)
        for (std::int64_t page = (keys + p.pages->rows - 1) / p.pages->rows; page < p.keys / p.pages->rows; ++page)
          x.pages[static_cast<std::size_t>(b * (p.keys / p.pages->rows) + page)] = -1000000;
    }
  }
  struct Count {
    std::int64_t outer, heads;
  };
  Elements filled(const AttentionProblem& p, const HeadsLayout& x, std::int64_t rows, Count count, bool poisoned) {
    const std::int64_t heads = count.heads;
    Elements out(p.dtype, static_cast<std::size_t>((count.outer - 1) * x.outer + (heads - 1) * x.head +
                                                   (rows - 1) * x.row + p.width + (poisoned ? 64 : 0)));
    if (poisoned) return out;
    for (std::int64_t b = 0; b < count.outer; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t e = 0; e < p.width; ++e)
            out.set(static_cast<std::size_t>(b * x.outer + h * x.head + r * x.row + e),
                    static_cast<float>(below(33) - 16) / 8);
    return out;
  }

  std::mt19937 random_;
  std::vector<DType> dtypes_;
};

inline std::string text(const AttentionProblem& p) {
  const auto whole = [](std::int64_t x) { return std::to_string(x); };
  std::string out = std::string(name(p.dtype)) + " " + whole(p.outer) + "x" + whole(p.heads) + " heads on " +
                    whole(p.key_heads) + ", " + whole(p.rows) + " rows, " + whole(p.keys) + " keys, width " +
                    whole(p.width) + ", scale " + std::to_string(p.scale) + ", cap " + std::to_string(p.cap) +
                    ", band " + whole(p.low) + " " + whole(p.high);
  if (p.lengths) {
    out += ", lengths and " + whole(p.lengths->limit);
    if (p.lengths->low) out += ", low moves";
    if (p.lengths->high) out += ", high moves";
  }
  if (p.packed) out += ", packed to " + whole(p.packed->rows) + " and " + whole(p.packed->keys);
  if (p.pages) out += ", in " + whole(p.pages->count) + " pages of " + whole(p.pages->rows);
  return out;
}

// One row of a head in fp64.
class ExactRow {
 public:
  std::vector<double> row, size;          // `magnitude` has the sums of the absolute values of the terms
  double lse = 0, most = 0, largest = 0;  // Largest visible score; largest absolute one

  ExactRow(const AttentionCase& x, std::int64_t b, std::int64_t h, std::int64_t r)
      : row(static_cast<std::size_t>(x.problem.width)), size(row) {
    const AttentionProblem p = x.problem_of(b);
    const std::int64_t key_head = h / (p.heads / p.key_heads);
    const std::size_t q = x.row_place(p.q, b, h, r);
    std::vector<double> weights(static_cast<std::size_t>(p.keys));
    double sum = 0;
    most = -INFINITY;
    for (std::int64_t t = 0; t < p.keys; ++t) {
      double s = 0;
      for (std::size_t e = 0; e < row.size(); ++e) s += x.q[q + e] * x.k[x.key_place(p.k, b, key_head, t) + e];
      s *= p.scale;
      if (p.cap > 0) s = p.cap * std::tanh(s / p.cap);
      const bool is_seen = t - r >= p.low && t - r <= p.high;
      if (is_seen) largest = std::max(largest, std::fabs(s));
      weights[static_cast<std::size_t>(t)] = is_seen ? s : -INFINITY;
      most = std::max(most, weights[static_cast<std::size_t>(t)]);
    }
    for (double& w : weights) sum += w = std::exp(w - most);
    lse = most + std::log(sum);
    if (most == -INFINITY) std::fill(row.begin(), row.end(), NAN);
    for (std::int64_t t = 0; t < p.keys; ++t)
      for (std::size_t e = 0; e < row.size(); ++e) {
        const double part = weights[static_cast<std::size_t>(t)] / sum * x.v[x.key_place(p.v, b, key_head, t) + e];
        row[e] += part;
        size[e] += std::fabs(part);
      }
  }
};

// Returns the largest ratio of error to allowed error; 1e30 if a log-sum-exp is wrong, 2e30 if a NaN is wrong, 3e30 if
// other memory changed. `unit` is the relative rounding error of a weight; sums of weights use unrounded ones. Scores
// are f32; the error of tanh is at most 1.3e-6 of the cap.
inline double judge(const AttentionCase& x, double unit, double rounding) {
  const AttentionProblem& p = x.problem;
  double worst = 0;
  std::vector<bool> is_result(x.o.size());
  for (std::int64_t b = 0; b < p.outer; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t r = 0; r < x.rows_of(b); ++r) {
        const ExactRow exact(x, b, h, r);
        const float lse = x.lse[x.lse_place(b, h, r)];
        if (exact.most > -INFINITY && !(std::fabs(lse - exact.lse) <= 1e-4 * (1 + std::fabs(exact.lse)))) return 1e30;
        for (std::size_t e = 0; e < exact.row.size(); ++e) {
          const std::size_t place = x.row_place(p.o, b, h, r) + e;
          is_result[place] = true;
          const double got = x.o[place];
          if (std::isnan(exact.row[e]) != std::isnan(got)) return 2e30;
          if (std::isnan(got)) continue;
          const double allowed = (unit + 3e-7 * exact.largest + 1.3e-6 * p.cap) * exact.size[e] +
                                 rounding * std::fabs(exact.row[e]) + 1e-6;
          worst = std::max(worst, std::fabs(got - exact.row[e]) / allowed);
        }
      }
  for (std::size_t i = x.lse.size() - AttentionCase::behind; i < x.lse.size(); ++i)
    if (x.lse[i] != AttentionCase::untouched) return 3e30;
  for (std::size_t i = 0; i < x.o.size(); ++i)
    if (!is_result[i] && !x.o.same(i, x.before)) return 3e30;
  return worst;
}

}  // namespace ridge::ops::testing
