// Compares the gradients of attention with fp64 for the random heads, lengths, widths, masks and strides of cases.h,
// without caps. o and the log-sum-exp are those of a forward pass: NaN and -inf if a row sees no key. Every element of
// dq, dk and dv is compared; memory between and after their rows must not change. For CPU and device kernels.
#pragma once

#include "ridge/ops/attention/backward_problem.h"
#include "ridge/ops/attention/testing/cases.h"

namespace ridge::ops::testing {

struct AttentionBackwardCase {
  AttentionBackwardProblem problem;
  Elements q, k, v, o, dout, dq, dk, dv;
  Elements dq_before, dk_before, dv_before;
  std::vector<float> lse;
};

// Contiguous rows of all heads.
class Dense {
 public:
  Dense(std::int64_t heads, std::int64_t rows, std::int64_t width)
      : rows_(rows), width_(width), all_(static_cast<std::size_t>(heads * rows * width)) {}
  Dense(const Elements& x, const HeadsLayout& at, std::int64_t outer, std::int64_t heads, std::int64_t rows,
        std::int64_t width)
      : Dense(outer * heads, rows, width) {
    for (std::int64_t h = 0; h < outer * heads; ++h)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t e = 0; e < width; ++e)
          row(h, r)[e] = x[AttentionCase::at(at, h / heads, h % heads, r) + static_cast<std::size_t>(e)];
  }
  double* row(std::int64_t head, std::int64_t r) {
    return &all_[static_cast<std::size_t>((head * rows_ + r) * width_)];
  }
  const double* row(std::int64_t head, std::int64_t r) const { return const_cast<Dense*>(this)->row(head, r); }

 private:
  std::int64_t rows_, width_;
  std::vector<double> all_;
};

// A gradient in fp64, the sum of the absolute values of its terms, and that sum without the weights.
struct ExactGradient {
  Dense value, size, reach;
  ExactGradient(std::int64_t heads, std::int64_t rows, std::int64_t width)
      : value(heads, rows, width), size(heads, rows, width), reach(heads, rows, width) {}
  struct By {
    double value, weight, reach;  // The absolute value is weight * unweighted_size
  };
  void add(std::int64_t head, std::int64_t r, By by, const double* x, std::int64_t width) {
    double *const to = value.row(head, r), *const to_size = size.row(head, r), *const to_reach = reach.row(head, r);
    for (std::int64_t e = 0; e < width; ++e) {
      to[e] += by.value * x[e];
      to_size[e] += by.weight * by.reach * std::fabs(x[e]);
      to_reach[e] += by.reach * std::fabs(x[e]);
    }
  }
};

class ExactBackward {
 public:
  ExactGradient dq, dk, dv;
  double largest = 0;  // Largest absolute score that a row sees

  explicit ExactBackward(const AttentionBackwardCase& x) : ExactBackward(x.problem.forward, x.problem, x) {}

 private:
  ExactBackward(const AttentionProblem& p, const AttentionBackwardProblem& all, const AttentionBackwardCase& x)
      : dq(p.outer * p.heads, p.rows, p.width),
        dk(p.outer * p.key_heads, p.keys, p.width),
        dv(dk),
        p_(p),
        q_(x.q, p.q, p.outer, p.heads, p.rows, p.width),
        k_(x.k, p.k, p.outer, p.key_heads, p.keys, p.width),
        v_(x.v, p.v, p.outer, p.key_heads, p.keys, p.width),
        o_(x.o, p.o, p.outer, p.heads, p.rows, p.width),
        dout_(x.dout, all.dout, p.outer, p.heads, p.rows, p.width) {
    for (std::int64_t h = 0; h < p.outer * p.heads; ++h)
      for (std::int64_t r = 0; r < p.rows; ++r) add_row(h, r);
  }
  double product(const double* a, const double* b, double* size = nullptr) const {
    double sum = 0;
    for (std::int64_t e = 0; e < p_.width; ++e) {
      sum += a[e] * b[e];
      if (size != nullptr) *size += std::fabs(a[e] * b[e]);
    }
    return sum;
  }
  void add_row(std::int64_t h, std::int64_t r) {
    const std::int64_t head = h / (p_.heads / p_.key_heads), first = std::max<std::int64_t>(0, r + p_.low),
                       end = std::min(p_.keys, r + p_.high + 1);
    if (first >= end) return;
    const double *const q = q_.row(h, r), *const dout = dout_.row(h, r);
    std::vector<double> weights(static_cast<std::size_t>(end - first));
    double most = -INFINITY, sum = 0, delta_size = 0;
    for (std::int64_t t = first; t < end; ++t) {
      double& s = weights[static_cast<std::size_t>(t - first)];
      s = p_.scale * product(q, k_.row(head, t));
      most = std::max(most, s);
      largest = std::max(largest, std::fabs(s));
    }
    for (double& w : weights) sum += w = std::exp(w - most);
    const double delta = product(dout, o_.row(h, r), &delta_size);
    for (std::int64_t t = first; t < end; ++t) {
      const double weight = weights[static_cast<std::size_t>(t - first)] / sum;
      double size = delta_size;
      const double slope = p_.scale * weight * (product(dout, v_.row(head, t), &size) - delta);
      dv.add(head, t, {weight, weight, 1}, dout, p_.width);
      dk.add(head, t, {slope, weight, p_.scale * size}, q, p_.width);
      dq.add(h, r, {slope, weight, p_.scale * size}, k_.row(head, t), p_.width);
    }
  }

  const AttentionProblem& p_;
  const Dense q_, k_, v_, o_, dout_;
};

class AttentionBackwardCases : AttentionCases {
 public:
  using AttentionCases::AttentionCases;

  AttentionBackwardCase next(int grain) {
    AttentionBackwardProblem all{.forward = problem(grain)};
    AttentionProblem& p = all.forward;
    p.cap = 0;
    p.lengths.reset();  // Not supported by gradients
    p.packed.reset();
    p.pages.reset();
    const auto of_rows = [&] { return layout(p.heads, p.rows, p.width, grain); };
    const auto of_keys = [&] { return layout(p.key_heads, p.keys, p.width, grain); };
    all.dout = of_rows();
    all.dq = of_rows();
    all.dk = of_keys();
    all.dv = of_keys();
    return made(all);
  }
  // Returns a case with this problem and random inputs.
  AttentionBackwardCase made(const AttentionBackwardProblem& all) {
    const AttentionProblem& p = all.forward;
    const auto rows = [&](const HeadsLayout& at, bool poisoned) {
      return filled(p, at, p.rows, {p.outer, p.heads}, poisoned);
    };
    const auto keys = [&](const HeadsLayout& at, bool poisoned) {
      return filled(p, at, p.keys, {p.outer, p.key_heads}, poisoned);
    };
    AttentionCase forward{p, rows(p.q, false), keys(p.k, false), keys(p.v, false), rows(p.o, true), rows(p.o, true),
                          {}};
    std::vector<float> lse;
    for (std::int64_t b = 0; b < p.outer; ++b)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t r = 0; r < p.rows; ++r) {
          const ExactRow exact(forward, b, h, r);
          lse.push_back(exact.most > -INFINITY ? static_cast<float>(exact.lse) : -INFINITY);
          for (std::size_t e = 0; e < exact.row.size(); ++e)
            forward.o.set(AttentionCase::at(p.o, b, h, r) + e, static_cast<float>(exact.row[e]));
        }
    return {all,
            forward.q,
            forward.k,
            forward.v,
            forward.o,
            rows(all.dout, false),
            rows(all.dq, true),
            keys(all.dk, true),
            keys(all.dv, true),
            rows(all.dq, true),
            keys(all.dk, true),
            keys(all.dv, true),
            lse};
  }
};

struct JudgedBy {
  double unit;      // Relative error of each term
  double rounding;  // Relative rounding error of the result
  double step = 0;  // Absolute error of a weight
};

// Returns the largest ratio of error to allowed error of a gradient; 2e30 if it is NaN, 3e30 if other memory changed.
inline double judge(const Elements& got, const Elements& before, const HeadsLayout& at, const ExactGradient& exact,
                    const AttentionProblem& p, bool of_rows, JudgedBy by) {
  const std::int64_t heads = of_rows ? p.heads : p.key_heads, rows = of_rows ? p.rows : p.keys;
  double worst = 0;
  std::vector<bool> is_result(got.size());
  for (std::int64_t h = 0; h < p.outer * heads; ++h)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t e = 0; e < p.width; ++e) {
        const std::size_t place = AttentionCase::at(at, h / heads, h % heads, r) + static_cast<std::size_t>(e);
        is_result[place] = true;
        if (std::isnan(got[place])) return 2e30;
        const double want = exact.value.row(h, r)[e];
        const double allowed = by.unit * exact.size.row(h, r)[e] + by.step * exact.reach.row(h, r)[e] +
                               by.rounding * std::fabs(want) + 1e-6;
        worst = std::max(worst, std::fabs(got[place] - want) / allowed);
      }
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!is_result[i] && !got.same(i, before)) return 3e30;
  return worst;
}

// Returns the largest ratio of all three. `bounds.unit` excludes the error of the f32 scores, which is added here.
inline double judge(const AttentionBackwardCase& x, JudgedBy by) {
  const ExactBackward exact(x);
  by.unit += 3e-7 * exact.largest;
  const AttentionBackwardProblem& all = x.problem;
  return std::max({judge(x.dq, x.dq_before, all.dq, exact.dq, all.forward, true, by),
                   judge(x.dk, x.dk_before, all.dk, exact.dk, all.forward, false, by),
                   judge(x.dv, x.dv_before, all.dv, exact.dv, all.forward, false, by)});
}

}  // namespace ridge::ops::testing
