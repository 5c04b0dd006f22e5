// Compares the gradients of attention with fp64 for the random heads, lengths, widths, masks and strides of cases.h,
// without caps. o and the log-sum-exp are those of a forward pass: NaN and -inf if a row sees no key. Every element of
// dq, dk and dv is compared; memory between and after their rows must not change. For CPU and device kernels.
#pragma once

#include "ridge/ops/attention/problem.h"
#include "ridge/ops/attention/testing/cases.h"

namespace ridge::ops::testing {

struct AttentionBackwardCase {
  AttentionBackwardProblem problem;
  StoredElements q, k, v, o, dout, dq, dk, dv;
  StoredElements dq_before, dk_before, dv_before;
  std::vector<float> lse;
};

// Contiguous rows of all heads.
class DenseRows {
 public:
  DenseRows(std::int64_t heads, std::int64_t rows, std::int64_t width)
      : rows_(rows), width_(width), all_(static_cast<std::size_t>(heads * rows * width)) {}
  DenseRows(const StoredElements& x, const HeadsLayout& strides, std::int64_t outer, std::int64_t heads,
            std::int64_t rows, std::int64_t width)
      : DenseRows(outer * heads, rows, width) {
    for (std::int64_t h = 0; h < outer * heads; ++h)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t e = 0; e < width; ++e)
          row(h, r)[e] =
              x[AttentionCase::element_offset(strides, h / heads, h % heads, r) + static_cast<std::size_t>(e)];
  }
  double* row(std::int64_t head, std::int64_t r) { return &all_[(head * rows_ + r) * width_]; }
  const double* row(std::int64_t head, std::int64_t r) const { return const_cast<DenseRows*>(this)->row(head, r); }

 private:
  std::int64_t rows_, width_;
  std::vector<double> all_;
};

// A gradient in fp64, the sum of the absolute values of its terms, and that sum with all attention weights set to 1.
struct ExactGradient {
  DenseRows value, magnitude, unweighted_magnitude;
  ExactGradient(std::int64_t heads, std::int64_t rows, std::int64_t width)
      : value(heads, rows, width), magnitude(heads, rows, width), unweighted_magnitude(heads, rows, width) {}
  struct Contribution {
    double value, weight, unweighted_magnitude;  // The term's absolute value is weight * unweighted_magnitude
  };
  void add(std::int64_t head, std::int64_t r, Contribution term, const double* x, std::int64_t width) {
    double *const to = value.row(head, r), *const to_magnitude = magnitude.row(head, r),
                  *const to_unweighted = unweighted_magnitude.row(head, r);
    for (std::int64_t e = 0; e < width; ++e) {
      to[e] += term.value * x[e];
      to_magnitude[e] += term.weight * term.unweighted_magnitude * std::fabs(x[e]);
      to_unweighted[e] += term.unweighted_magnitude * std::fabs(x[e]);
    }
  }
};

class ExactBackward {
 public:
  ExactGradient dq, dk, dv;
  double max_abs_score = 0;  // Largest absolute score of a visible pair

  explicit ExactBackward(const AttentionBackwardCase& x) : ExactBackward(x.problem.forward, x.problem, x) {}

 private:
  ExactBackward(const AttentionProblem& p, const AttentionBackwardProblem& gradient_problem,
                const AttentionBackwardCase& x)
      : dq(p.outer * p.heads, p.rows, p.width),
        dk(p.outer * p.key_heads, p.keys, p.width),
        dv(dk),
        p_(p),
        q_(x.q, p.q, p.outer, p.heads, p.rows, p.width),
        k_(x.k, p.k, p.outer, p.key_heads, p.keys, p.width),
        v_(x.v, p.v, p.outer, p.key_heads, p.keys, p.width),
        o_(x.o, p.o, p.outer, p.heads, p.rows, p.width),
        dout_(x.dout, gradient_problem.dout, p.outer, p.heads, p.rows, p.width) {
    for (std::int64_t h = 0; h < p.outer * p.heads; ++h)
      for (std::int64_t r = 0; r < p.rows; ++r) add_row(h, r);
  }
  double dot_product(const double* a, const double* b, double* magnitude = nullptr) const {
    double sum = 0;
    for (std::int64_t e = 0; e < p_.width; ++e) {
      sum += a[e] * b[e];
      if (magnitude != nullptr) *magnitude += std::fabs(a[e] * b[e]);
    }
    return sum;
  }
  void add_row(std::int64_t h, std::int64_t r) {
    const std::int64_t head = h / (p_.heads / p_.key_heads), first = std::max<std::int64_t>(0, r + p_.low),
                       end = std::min(p_.keys, r + p_.high + 1);
    if (first >= end) return;
    const double *const q = q_.row(h, r), *const dout = dout_.row(h, r);
    std::vector<double> weights(end - first);
    double max_score = -INFINITY, sum = 0, delta_magnitude = 0;
    for (std::int64_t t = first; t < end; ++t) {
      double& s = weights[t - first];
      s = p_.scale * dot_product(q, k_.row(head, t));
      max_score = std::max(max_score, s);
      max_abs_score = std::max(max_abs_score, std::fabs(s));
    }
    for (double& w : weights) sum += w = std::exp(w - max_score);
    const double delta = dot_product(dout, o_.row(h, r), &delta_magnitude);
    for (std::int64_t t = first; t < end; ++t) {
      const double weight = weights[t - first] / sum;
      double magnitude = delta_magnitude;
      const double slope = p_.scale * weight * (dot_product(dout, v_.row(head, t), &magnitude) - delta);
      dv.add(head, t, {weight, weight, 1}, dout, p_.width);
      dk.add(head, t, {slope, weight, p_.scale * magnitude}, q, p_.width);
      dq.add(h, r, {slope, weight, p_.scale * magnitude}, k_.row(head, t), p_.width);
    }
  }

  const AttentionProblem& p_;
  const DenseRows q_, k_, v_, o_, dout_;
};

class AttentionBackwardCases : AttentionCases {
 public:
  using AttentionCases::AttentionCases;

  AttentionBackwardCase next_case(int alignment) {
    AttentionBackwardProblem gradient_problem{.forward = random_problem(alignment)};
    AttentionProblem& p = gradient_problem.forward;
    p.cap = 0;
    p.lengths.reset();  // Not supported by gradients
    p.packed.reset();
    p.pages.reset();
    const auto row_layout = [&] { return random_layout(p.heads, p.rows, p.width, alignment); };
    const auto key_layout = [&] { return random_layout(p.key_heads, p.keys, p.width, alignment); };
    gradient_problem.dout = row_layout();
    gradient_problem.dq = row_layout();
    gradient_problem.dk = key_layout();
    gradient_problem.dv = key_layout();
    return make_case(gradient_problem);
  }
  // Returns a case with this problem and random inputs.
  AttentionBackwardCase make_case(const AttentionBackwardProblem& gradient_problem) {
    const AttentionProblem& p = gradient_problem.forward;
    const auto rows = [&](const HeadsLayout& strides, bool is_output) {
      return random_elements(p, strides, p.rows, {p.outer, p.heads}, is_output);
    };
    const auto keys = [&](const HeadsLayout& strides, bool is_output) {
      return random_elements(p, strides, p.keys, {p.outer, p.key_heads}, is_output);
    };
    AttentionCase forward{p, rows(p.q, false), keys(p.k, false), keys(p.v, false), rows(p.o, true), rows(p.o, true),
                          {}};
    std::vector<float> lse;
    for (std::int64_t b = 0; b < p.outer; ++b)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t r = 0; r < p.rows; ++r) {
          const ExactRow exact(forward, b, h, r);
          lse.push_back(exact.max_score > -INFINITY ? static_cast<float>(exact.lse) : -INFINITY);
          for (std::size_t e = 0; e < exact.o.size(); ++e)
            forward.o.set(AttentionCase::element_offset(p.o, b, h, r) + e, static_cast<float>(exact.o[e]));
        }
    return {gradient_problem,
            forward.q,
            forward.k,
            forward.v,
            forward.o,
            rows(gradient_problem.dout, false),
            rows(gradient_problem.dq, true),
            keys(gradient_problem.dk, true),
            keys(gradient_problem.dv, true),
            rows(gradient_problem.dq, true),
            keys(gradient_problem.dk, true),
            keys(gradient_problem.dv, true),
            lse};
  }
};

struct ErrorBounds {
  double term_error;        // Relative error of each term
  double result_rounding;   // Relative rounding error of the result
  double weight_error = 0;  // Absolute error of a weight
};

// Returns the largest ratio of error to allowed error of a gradient; 2e30 if it is NaN, 3e30 if other memory changed.
inline double max_error_ratio(const StoredElements& got, const StoredElements& before, const HeadsLayout& strides,
                              const ExactGradient& exact, const AttentionProblem& p, bool is_query_operand,
                              ErrorBounds bounds) {
  const std::int64_t heads = is_query_operand ? p.heads : p.key_heads, rows = is_query_operand ? p.rows : p.keys;
  double worst = 0;
  std::vector<bool> is_result(got.size());
  for (std::int64_t h = 0; h < p.outer * heads; ++h)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t e = 0; e < p.width; ++e) {
        const std::size_t offset =
            AttentionCase::element_offset(strides, h / heads, h % heads, r) + static_cast<std::size_t>(e);
        is_result[offset] = true;
        if (std::isnan(got[offset])) return 2e30;
        const double want = exact.value.row(h, r)[e];
        const double allowed = bounds.term_error * exact.magnitude.row(h, r)[e] +
                               bounds.weight_error * exact.unweighted_magnitude.row(h, r)[e] +
                               bounds.result_rounding * std::fabs(want) + 1e-6;
        worst = std::max(worst, std::fabs(got[offset] - want) / allowed);
      }
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!is_result[i] && !got.has_same_bits(i, before)) return 3e30;
  return worst;
}

// Returns the largest ratio of dq, dk and dv. Adds the error of the f32 scores to `bounds.term_error`.
inline double max_error_ratio(const AttentionBackwardCase& x, ErrorBounds bounds) {
  const ExactBackward exact(x);
  bounds.term_error += 3e-7 * exact.max_abs_score;
  const AttentionBackwardProblem& gradient_problem = x.problem;
  return std::max(
      {max_error_ratio(x.dq, x.dq_before, gradient_problem.dq, exact.dq, gradient_problem.forward, true, bounds),
       max_error_ratio(x.dk, x.dk_before, gradient_problem.dk, exact.dk, gradient_problem.forward, false, bounds),
       max_error_ratio(x.dv, x.dv_before, gradient_problem.dv, exact.dv, gradient_problem.forward, false, bounds)});
}

}  // namespace ridge::ops::testing
