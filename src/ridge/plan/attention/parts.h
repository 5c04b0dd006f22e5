// Assigns the dimensions of attention's products to roles and derives the layouts of its operands. Internal to plan/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ops/attention/problem.h"
#include "ridge/plan/attention/reading.h"

namespace ridge {

struct AttentionParts {
  Dims batch, rows, width, out;  // rows: dimensions of q but not of k; one becomes the row, the others further heads
  std::string keys;
  std::optional<std::size_t> outer = {};  // number of batch dimensions before the heads; nullopt selects by layout
};

Dims dims_of(const Shape& shape);  // returns the dimensions longer than 1
bool has_dim(const Dims& dims, const std::string& dim);
bool contains_same(const Dims& dims, std::initializer_list<const Dims*> groups);

// Assigns dimensions by their presence in q, k and the scores. The caller adds those of v.
AttentionParts attention_parts(const Shape& q, const Shape& k, const Shape& scores, const std::string& keys);

// An operand or a result, with rows or keys and with the width of q and k or that of v.
struct LaidOut {
  const Shape* shape;
  bool of_rows, of_values;
  ops::HeadsLayout* to;
};
// Chooses the row dimension and divides the batch into outer and heads so that strides can address all operands; sets
// the problem's sizes and layouts. Masks compare with `masked_dim`, if not empty. Returns false if no choice works.
bool lay_out(ops::AttentionProblem& problem, const AttentionParts& parts, const std::string& masked, const Shape& q,
             const Shape& k, const std::vector<LaidOut>& all);

}  // namespace ridge
