// The dimensions of attention's products by their parts, and where that says its operands lie. Internal to plan/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/attention/problem.h"
#include "ridge/plan/attention/reading.h"

namespace ridge {

struct AttentionParts {
  Dims batch, rows, width, out;  // rows: of q and not of k, the one that is walked and those that are further heads
  std::string keys;
  std::optional<std::size_t> outer = {};  // how many of the batch are a problem's outer; none: as many as lie so
};

Dims dims_of(const Shape& shape);  // longer than 1
bool has_dim(const Dims& dims, const std::string& dim);
bool contains_same(const Dims& dims, std::initializer_list<const Dims*> groups);

// From what q, k and the scores have; what v has beside.
AttentionParts attention_parts(const Shape& q, const Shape& k, const Shape& scores, const std::string& keys);

// An operand or a result: along rows or keys, of q's and k's width or of v's.
struct LaidOut {
  const Shape* shape;
  bool of_rows, of_values;
  ops::HeadsLayout* to;
};
// The dimension of rows and how the batch falls into outer and heads, so that strides can say where all lies: sizes and
// layouts of the problem. `masked`: what masks compare with, or empty. False: they cannot.
bool lay_out(ops::AttentionProblem& problem, const AttentionParts& parts, const std::string& masked, const Shape& q,
             const Shape& k, const std::vector<LaidOut>& all);

}  // namespace ridge
