// What the statements between attention's products compute, node by node: scaled and masked scores, their softmax
// however it is spelled, and the slopes of its gradient. Internal to plan/.
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

// key - row lies in low … high, and the key below the sequence's length + limit.
struct AttentionBand {
  static constexpr std::int64_t far = ops::AttentionProblem::far;
  std::int64_t low = -far, high = far, limit = far;
  bool low_moves = false, high_moves = false;  // these are counted from the length
  int lengths = -1;                            // Program::tensors that hold them; -1: none
  bool operator==(const AttentionBand&) const = default;
};

// A sum of a key's index, a row's, a sequence's length, and number: how often each.
struct AttentionPlace {
  int keys = 0, rows = 0, lengths = 0;
};

struct AttentionValue {
  using Band = AttentionBand;
  enum class Kind {
    unknown,
    constant,   // number
    index,      // place, whose row is along `dim` and whose length is that in `of`
    condition,  // 1 where a key lies in the band of a row, else 0
    mask,       // 0 there, else -inf
    scores,     // s * number, or tanh(s * within) * number, there, else -inf
    largest,    // of such scores along the keys
    distance,   // such scores less their largest
    weights,    // e to that
    total,      // the sum of those along the keys
    inverse,    // 1 over that
    softmax,    // weights over their total, times factor
    tensor,     // any other
    upstream,   // the gradient of the result, do
    dot,        // do times another tensor
    gradient,   // of the softmax, dp, times factor
    weighted,   // the softmax times that
    mean,       // the sum of those along the keys, or of a dot along the values, times factor
    centred,    // dp less the mean, times factor
    shares,     // the softmax times the mean, times factor
    slopes,     // the softmax times what is centred, times factor
  } kind = Kind::unknown;
  double number = 0, within = 0;  // within: 0 where there is no tanh
  std::string dim = {};
  Band band = {};
  AttentionPlace place = {};
  double factor = 1;
  int of = -1;           // kinds tensor, dot, and what is made of one: Program::tensors; -1: of the softmax
  bool weighed = false;  // of a mean and what is made of it: number, within and band are its softmax's
};

// Tensors that have a meaning of their own.
struct AttentionLeaves {
  int scores = -1;
  int gradient = -1, upstream = -1;
  std::map<int, AttentionValue> means = {};  // products that are one
  std::set<int> lengths = {};                // whole numbers
};

class AttentionReading {
 public:
  using Value = AttentionValue;
  // `values`: the dimensions along which a dot is summed.
  AttentionReading(const std::vector<Shape>& shapes, AttentionLeaves leaves, std::string keys, Dims values = {})
      : shapes_(shapes), leaves_(std::move(leaves)), keys_(std::move(keys)), of_values_(std::move(values)) {}

  // Of each node.
  const std::vector<Value>& read(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) values_.push_back(value_of(node));
    return values_;
  }
  const std::string& rows() const { return rows_; }  // the dimension that masks compare with; empty: there is none
  bool stands() const { return stands_; }            // a side of the band is the same for all rows

 private:
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

  const std::vector<Shape>& shapes_;
  AttentionLeaves leaves_;
  std::string keys_, rows_;
  bool stands_ = false;
  Dims of_values_;
  std::vector<Value> values_;
};

}  // namespace ridge
