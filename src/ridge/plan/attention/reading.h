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

using Dims = std::vector<std::string>;

// A mask: key - row is in low … high, the key is below the sequence's length + `length_offset`, and, with
// `in_sequence`, both are in the same packed sequence.
struct AttentionBand {
  static constexpr std::int64_t far = ops::AttentionProblem::far;
  std::int64_t low = -far, high = far, limit = far;
  bool low_moves = false, high_moves = false;  // true if the limit is relative to the length
  int lengths = -1;                            // index into Program::tensors; -1 if there are no lengths
  bool in_sequence = false;                    // true for packed sequences
  bool operator==(const AttentionBand&) const = default;
};

// Coefficients of a key's index, a row's index, a sequence's length and a page's index in a linear expression.
struct AttentionPlace {
  std::int64_t keys = 0, rows = 0, lengths = 0, pages = 0;
};

struct AttentionValue {
  using Band = AttentionBand;
  enum class Kind {
    unknown,
    constant,   // `number`
    index,      // `affine` + `number`, with a row along `dim` and a length in `tensor`
    sequence,   // sequence number of an element along `dim`
    condition,  // 1 inside `band`, else 0
    mask,       // 0 inside `band`, else -inf
    scores,     // s * number, or tanh(s * tanh_scale) * number, inside `band`, else -inf
    largest,    // maximum of the scores along the keys
    distance,   // scores - row_max
    weights,    // exp(scores - row_max)
    total,      // sum of exp_scores along the keys
    inverse,    // 1 / exp_sum
    softmax,    // p = exp_scores / exp_sum, times factor
    tensor,     // any other tensor
    upstream,   // do, the gradient of the result
    dot,        // do * another tensor
    gradient,   // dp, the gradient of the softmax, times factor
    weighted,   // p * dp, times factor
    mean,       // delta: sum of p * dp along the keys or of dout_product along the values, times factor
    centred,    // dp - delta, times factor
    shares,     // p * delta, times factor
    slopes,     // ds = p * (dp - delta), times factor
  } kind = Kind::unknown;
  double number = 0, within = 0;  // tanh_scale: 0 without tanh
  std::string dim = {};
  Band band = {};
  AttentionPlace place = {};
  double factor = 1;
  int of = -1;           // index into Program::tensors: the tensor, or that of a dout_product; -1 if from the softmax
  bool weighed = false;  // number, tanh_scale and band of this delta are those of its softmax
};

// Tensors with a known meaning, by index into Program::tensors.
struct AttentionLeaves {
  int scores = -1;
  int gradient = -1, upstream = -1;
  std::map<int, AttentionValue> means = {};  // products that compute delta
  std::set<int> lengths = {};                // integer inputs
  std::string pages = {};                    // page dimension, with `page_rows` keys per page; empty if not paged
  std::int64_t page_rows = 0;
};

class AttentionReading {
 public:
  using Value = AttentionValue;
  // `value_dims` are the dimensions over which a dout_product is summed.
  AttentionReading(const std::vector<Shape>& shapes, AttentionLeaves leaves, std::string keys, Dims values = {})
      : shapes_(shapes), leaves_(std::move(leaves)), keys_(std::move(keys)), of_values_(std::move(values)) {}

  // Returns the term of each node.
  const std::vector<Value>& read(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) values_.push_back(value_of(node));
    return values_;
  }
  const std::string& rows() const { return rows_; }  // dimension that masks compare with, or empty
  bool stands() const { return stands_; }            // true if a limit of the band is the same for all rows

 private:
  bool are_keys(const std::vector<Axis>& over) const;
  const Value& argument(const Node& node, std::size_t i) const {
    return values_[static_cast<std::size_t>(node.arguments[i])];
  }
  double extent(const std::string& dim) const;
  Value value_of(const Node& node);
  Value leaf(int tensor) const;
  Value along(const Node& node) const;
  Value along_keys(Function function, Value x) const;
  Value call(const Node& node);
  Value folded(const Node& node) const;
  Value binary(Function f, const Value& a, const Value& b);
  Value compared(const Value& a, const Value& b, int less);
  Value same_sequence(const Value& a, const Value& b);

  const std::vector<Shape>& shapes_;
  AttentionLeaves leaves_;
  std::string keys_, rows_;
  bool stands_ = false;
  Dims of_values_;
  std::vector<Value> values_;
};

}  // namespace ridge
