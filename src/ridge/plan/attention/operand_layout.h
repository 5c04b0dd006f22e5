// Assigns the dimensions of attention's products to roles and derives the layouts of its operands. Internal to plan/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/base/contains.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/plan/attention/terms.h"

namespace ridge {

struct AttentionDims {
  DimNames batch, rows, width,
      value_width;  // rows: dimensions of q but not of k; one becomes the row, the others further heads
  std::string keys;
  std::optional<std::size_t> outer_count =
      {};  // number of batch dimensions before the heads; nullopt selects by layout
};

DimNames nontrivial_dims(const Shape& shape);
bool equals_union(const DimNames& dims, std::initializer_list<const DimNames*> groups);

// Assigns dimensions by their presence in q, k and the scores. The caller adds those of v.
AttentionDims find_attention_dims(const Shape& q, const Shape& k, const Shape& scores, const std::string& keys);

// An operand or a result, with rows or keys and with the width of q and k or that of v.
struct OperandLayout {
  const Shape* shape;
  bool has_rows, has_value_width;
  ops::HeadsLayout* layout;
};
// Chooses the row dimension and divides the batch into outer and heads so that strides can address all operands; sets
// the problem's sizes and layouts. Masks compare with `masked_dim`, if not empty. Returns false if no choice works.
bool choose_layout(ops::AttentionProblem& problem, const AttentionDims& attention_dims, const std::string& masked_dim,
                   const Shape& q, const Shape& k, const std::vector<OperandLayout>& all);

}  // namespace ridge
