// Evaluates the statements between attention's products symbolically, node by node: scaled and masked scores, their
// softmax in any form, and the gradient of the scores. Internal to plan/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ridge/ops/attention/problem.h"
#include "ridge/plan/shape.h"

namespace ridge {

using DimNames = std::vector<std::string>;

// A mask: key - row is in low … high, the key is below the sequence's length + `length_offset`, and, with
// `in_sequence`, both are in the same packed sequence.
struct MaskBand {
  static constexpr std::int64_t unbounded = ops::AttentionProblem::unbounded;
  std::int64_t low = -unbounded, high = unbounded, length_offset = unbounded;
  bool low_from_length = false, high_from_length = false;  // true if the limit is relative to the length
  int lengths_tensor = -1;                                 // index into Program::tensors; -1 if there are no lengths
  bool in_sequence = false;                                // true for packed sequences
  bool operator==(const MaskBand&) const = default;
};

// Coefficients of a key's index, a row's index, a sequence's length and a page's index in a linear expression.
struct AffineIndex {
  std::int64_t keys = 0, rows = 0, lengths = 0, pages = 0;
};

struct AttentionTerm {
  using TermBand = MaskBand;
  enum class TermKind {
    unknown,
    constant,          // `number`
    index,             // `affine` + `number`, with a row along `dim` and a length in `tensor`
    sequence,          // sequence number of an element along `dim`
    condition,         // 1 inside `band`, else 0
    mask,              // 0 inside `band`, else -inf
    scores,            // s * number, or tanh(s * tanh_scale) * number, inside `band`, else -inf
    row_max,           // maximum of the scores along the keys
    scores_minus_max,  // scores - row_max
    exp_scores,        // exp(scores - row_max)
    exp_sum,           // sum of exp_scores along the keys
    inverse_exp_sum,   // 1 / exp_sum
    softmax,           // p = exp_scores / exp_sum, times factor
    tensor,            // any other tensor
    dout,              // do, the gradient of the result
    dout_product,      // do * another tensor
    dp,                // dp, the gradient of the softmax, times factor
    p_times_dp,        // p * dp, times factor
    delta,             // delta: sum of p * dp along the keys or of dout_product along the values, times factor
    dp_minus_delta,    // dp - delta, times factor
    p_times_delta,     // p * delta, times factor
    ds,                // ds = p * (dp - delta), times factor
  } kind = TermKind::unknown;
  double number = 0, tanh_scale = 0;  // tanh_scale: 0 without tanh
  std::string dim = {};
  TermBand band = {};
  AffineIndex affine = {};
  double factor = 1;
  int tensor = -1;  // index into Program::tensors: the tensor, or that of a dout_product; -1 if from the softmax
  bool has_softmax = false;  // number, tanh_scale and band of this delta are those of its softmax
};

// Tensors with a known meaning, by index into Program::tensors.
struct AttentionInputs {
  int scores = -1;
  int dp = -1, dout = -1;
  std::map<int, AttentionTerm> deltas = {};  // products that compute delta
  std::set<int> lengths = {};                // integer inputs
  std::string pages = {};                    // page dimension, with `page_rows` keys per page; empty if not paged
  std::int64_t page_rows = 0;
};

class AttentionEvaluator {
 public:
  using AttnTerm = AttentionTerm;
  // `value_dims` are the dimensions over which a dout_product is summed.
  AttentionEvaluator(const std::vector<Shape>& shapes, AttentionInputs inputs, std::string keys,
                     DimNames value_dims = {})
      : shapes_(shapes), inputs_(std::move(inputs)), keys_(std::move(keys)), value_dims_(std::move(value_dims)) {}

  // Returns the term of each node.
  const std::vector<AttnTerm>& evaluate_nodes(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) terms_.push_back(evaluate_node(node));
    return terms_;
  }
  const std::string& masked_dim() const { return masked_dim_; }  // dimension that masks compare with, or empty
  bool has_fixed_mask_limit() const {
    return has_fixed_mask_limit_;
  }  // true if a limit of the band is the same for all rows

 private:
  bool covers_keys(const std::vector<Axis>& over) const;
  const AttnTerm& argument_of(const Node& node, std::size_t i) const { return terms_[node.arguments[i]]; }
  double extent_of(const std::string& dim) const;
  AttnTerm evaluate_size(const std::string& dim) const;
  AttnTerm evaluate_node(const Node& node);
  AttnTerm evaluate_tensor(int tensor) const;
  AttnTerm evaluate_reduction(const Node& node) const;
  AttnTerm reduce_keys(Function function, AttnTerm x) const;
  AttnTerm evaluate_call(const Node& node);
  AttnTerm fold_constants(const Node& node) const;
  AttnTerm evaluate_binary(Function f, const AttnTerm& a, const AttnTerm& b);
  AttnTerm compare_indices(const AttnTerm& a, const AttnTerm& b, int strict);
  AttnTerm compare_sequences(const AttnTerm& a, const AttnTerm& b);

  const std::vector<Shape>& shapes_;
  AttentionInputs inputs_;
  std::string keys_, masked_dim_;
  bool has_fixed_mask_limit_ = false;
  DimNames value_dims_;
  std::vector<AttnTerm> terms_;
};

}  // namespace ridge
