// Attention against fp64: random heads, lengths, widths, masks, caps and strides, inputs that are small whole numbers
// over eight, so that they are exact in every format. Every element of o is compared; memory between and behind its
// rows must stay as it was; keys and values behind a sequence's end are NaN. For tests of the CPU's kernel and of a
// device's.
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

// Elements of a problem's format, as they lie in memory.
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
  std::vector<float> lse;          // `behind` more than there are rows, which nobody may write
  std::vector<int> lengths = {};  // of sequences that differ
  static constexpr std::size_t behind = 4096;
  static constexpr float untouched = -12345;
};

class AttentionCases {
 public:
  AttentionCases(unsigned seed, std::vector<DType> dtypes) : random_(seed), dtypes_(std::move(dtypes)) {}

  // grain: widths and gaps are multiples of it
  AttentionCase next(int grain) {
    const AttentionProblem p = problem(grain);
    const std::vector<int> lengths = p.lengths ? lengths_of(p) : std::vector<int>{};
    AttentionCase out{p,
                      filled(p, p.q, p.rows, p.heads, false),
                      filled(p, p.k, p.keys, p.key_heads, false),
                      filled(p, p.v, p.keys, p.key_heads, false),
                      filled(p, p.o, p.rows, p.heads, true),
                      filled(p, p.o, p.rows, p.heads, true),
                      std::vector<float>(static_cast<std::size_t>(p.outer * p.heads * p.rows) + AttentionCase::behind,
                                         AttentionCase::untouched),
                      lengths};
    for (std::size_t b = 0; b < lengths.size(); ++b)
      for (std::int64_t t = of_length(p, lengths[b]).keys; t < p.keys; ++t)
        for (std::int64_t h = 0; h < p.key_heads; ++h)
          for (std::int64_t e = 0; e < p.width; ++e)
            for (const auto& [x, at] : {std::pair{&out.k, p.k}, {&out.v, p.v}})
              x->set(static_cast<std::size_t>(static_cast<std::int64_t>(b) * at.outer + h * at.head + t * at.row + e),
                     NAN);
    return out;
  }

 protected:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Rows that lie one behind the other or heads that do, with a gap here and there.
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
    p.q = layout(p.heads, p.rows, p.width, grain);
    p.k = layout(p.key_heads, p.keys, p.width, grain);
    p.v = layout(p.key_heads, p.keys, p.width, grain);
    p.o = layout(p.heads, p.rows, p.width, grain);
    return p;
  }
  // What a row sees ends with its sequence, and of the band a side or both, or none, go with the length.
  void set_lengths(AttentionProblem& p) {
    const auto far = AttentionProblem::far;
    p.lengths.emplace();
    p.lengths->limit = below(4) == 0 ? below(5) - 2 : below(6) == 0 ? far : 0;
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
  Elements filled(const AttentionProblem& p, const HeadsLayout& x, std::int64_t rows, std::int64_t heads,
                  bool poisoned) {
    Elements out(p.dtype, static_cast<std::size_t>((p.outer - 1) * x.outer + (heads - 1) * x.head + (rows - 1) * x.row +
                                                   p.width + (poisoned ? 64 : 0)));
    if (poisoned) return out;
    for (std::int64_t b = 0; b < p.outer; ++b)
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
  return std::string(name(p.dtype)) + " " + whole(p.outer) + "x" + whole(p.heads) + " heads on " + whole(p.key_heads) +
         ", " + whole(p.rows) + " rows, " + whole(p.keys) + " keys, width " + whole(p.width) + ", scale " +
         std::to_string(p.scale) + ", cap " + std::to_string(p.cap) + ", band " + whole(p.low) + " " + whole(p.high) +
         (p.lengths ? ", lengths and " + whole(p.lengths->limit) + (p.lengths->low ? ", low moves" : "") +
                          (p.lengths->high ? ", high moves" : "")
                    : "");
}

// A row of a head in fp64.
class ExactRow {
 public:
  std::vector<double> row, size;          // size: the sum of what was added, without its signs
  double lse = 0, most = 0, largest = 0;  // largest: score that the row sees, without its sign

  ExactRow(const AttentionCase& x, std::int64_t b, std::int64_t h, std::int64_t r)
      : row(static_cast<std::size_t>(x.problem.width)), size(row) {
    const AttentionProblem p = of_length(x.problem, x.lengths.empty() ? 0 : x.lengths[static_cast<std::size_t>(b)]);
    const std::int64_t key_head = h / (p.heads / p.key_heads);
    const std::size_t q = at(p.q, b, h, r);
    std::vector<double> weights(static_cast<std::size_t>(p.keys));
    double sum = 0;
    most = -INFINITY;
    for (std::int64_t t = 0; t < p.keys; ++t) {
      double s = 0;
      for (std::size_t e = 0; e < row.size(); ++e) s += x.q[q + e] * x.k[at(p.k, b, key_head, t) + e];
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
        const double part = weights[static_cast<std::size_t>(t)] / sum * x.v[at(p.v, b, key_head, t) + e];
        row[e] += part;
        size[e] += std::fabs(part);
      }
  }
  static std::size_t at(const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) {
    return static_cast<std::size_t>(b * l.outer + h * l.head + r * l.row);
  }
};

// The worst error over what is allowed; 1e30 where the sum of exponentials is wrong, 2e30 where NaN
// stands in the wrong place, 3e30 where memory beside o or lse has changed. `unit`: what weights and the result are
// rounded by, once each; sums of weights are not of the rounded ones. Scores are f32, and what a tanh leaves
// of them is known within 1.3e-6 of the cap.
inline double judge(const AttentionCase& x, double unit, double rounding) {
  const AttentionProblem& p = x.problem;
  double worst = 0;
  std::vector<bool> is_result(x.o.size());
  for (std::int64_t b = 0; b < p.outer; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const ExactRow exact(x, b, h, r);
        const float lse = x.lse[static_cast<std::size_t>((b * p.heads + h) * p.rows + r)];
        if (exact.most > -INFINITY && !(std::fabs(lse - exact.lse) <= 1e-4 * (1 + std::fabs(exact.lse)))) return 1e30;
        for (std::size_t e = 0; e < exact.row.size(); ++e) {
          const std::size_t place = ExactRow::at(p.o, b, h, r) + e;
          is_result[place] = true;
          const double got = x.o[place];
          if (std::isnan(exact.row[e]) != std::isnan(got)) return 2e30;
          if (std::isnan(got)) continue;
          const double allowed =
              (unit + 3e-7 * exact.largest + 1.3e-6 * p.cap) * exact.size[e] + rounding * std::fabs(exact.row[e]) + 1e-6;
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
