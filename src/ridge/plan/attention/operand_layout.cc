#include "ridge/plan/attention/operand_layout.h"

#include <algorithm>

#include "ridge/base/contains.h"

namespace ridge {
namespace {

std::int64_t extent_of(const Shape& shape, const DimNames& dims) {
  std::int64_t n = 1;
  for (const std::string& dim : dims) n *= axis_along(shape, dim).extent;
  return n;
}

std::optional<ops::HeadsLayout> heads_layout(const Shape& shape, const DimNames& outer, const DimNames& heads,
                                             const std::string& rows, const DimNames& width) {
  const auto outer_stride = merged_stride(shape, outer), head = merged_stride(shape, heads),
             element = merged_stride(shape, width);
  if (!outer_stride || !head || !element) return std::nullopt;
  if (extent_of(shape, width) > 1 && *element != 1) return std::nullopt;
  return ops::HeadsLayout{*outer_stride, *head, rows.empty() ? 0 : axis_along(shape, rows).stride};
}

struct HeadSplit {  // assignment of batch and row dimensions
  DimNames outer, heads, all_heads;
  std::string rows;
};

bool try_layout(ops::AttentionProblem& p, const AttentionDims& attention_dims, const HeadSplit& split, const Shape& q,
                const Shape& k, const std::vector<OperandLayout>& all) {
  for (const OperandLayout& one : all) {
    const DimNames& width = one.has_value_width ? attention_dims.value_width : attention_dims.width;
    const auto found = heads_layout(*one.shape, split.outer, one.has_rows ? split.all_heads : split.heads,
                                    one.has_rows ? split.rows : attention_dims.keys, width);
    if (!found || extent_of(*one.shape, width) != extent_of(q, attention_dims.width)) return false;
    *one.layout = *found;
  }
  p.outer = extent_of(q, split.outer);
  p.heads = extent_of(q, split.all_heads);
  p.key_heads = extent_of(q, split.heads);
  p.rows = split.rows.empty() ? 1 : axis_along(q, split.rows).extent;
  p.keys = axis_along(k, attention_dims.keys).extent;
  p.width = extent_of(q, attention_dims.width);
  return true;
}

}  // namespace

DimNames nontrivial_dims(const Shape& shape) {
  DimNames out;
  for (const SizedAxis& axis : shape)
    if (axis.extent > 1) out.push_back(axis.dim);
  return out;
}
bool equals_union(const DimNames& dims, std::initializer_list<const DimNames*> groups) {
  DimNames all;
  for (const DimNames* group : groups) all.insert(all.end(), group->begin(), group->end());
  DimNames sorted_dims = dims;
  std::sort(all.begin(), all.end());
  std::sort(sorted_dims.begin(), sorted_dims.end());
  return all == sorted_dims;
}

AttentionDims find_attention_dims(const Shape& q, const Shape& k, const Shape& scores, const std::string& keys) {
  AttentionDims out;
  out.keys = keys;
  const DimNames of_k = nontrivial_dims(k), of_s = nontrivial_dims(scores);
  for (const std::string& dim : nontrivial_dims(q)) {
    const bool in_k = contains(of_k, dim), in_s = contains(of_s, dim);
    if (in_k && in_s) out.batch.push_back(dim);
    if (!in_k && in_s) out.rows.push_back(dim);
    if (in_k && !in_s) out.width.push_back(dim);
  }
  return out;
}

bool choose_layout(ops::AttentionProblem& problem, const AttentionDims& attention_dims, const std::string& masked_dim,
                   const Shape& q, const Shape& k, const std::vector<OperandLayout>& all) {
  DimNames candidates = attention_dims.rows;
  std::stable_sort(candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
    return axis_along(q, a).extent > axis_along(q, b).extent;
  });
  if (!masked_dim.empty()) candidates = {masked_dim};
  if (candidates.empty()) candidates.emplace_back();
  for (const std::string& rows : candidates)
    for (std::size_t outer = attention_dims.outer_count.value_or(0);
         outer <= attention_dims.outer_count.value_or(attention_dims.batch.size()); ++outer) {
      const auto middle = attention_dims.batch.begin() + static_cast<std::ptrdiff_t>(outer);
      HeadSplit split{{attention_dims.batch.begin(), middle}, {middle, attention_dims.batch.end()}, {}, rows};
      split.all_heads = split.heads;
      for (const std::string& dim : attention_dims.rows)
        if (dim != rows) split.all_heads.push_back(dim);
      if (try_layout(problem, attention_dims, split, q, k, all)) return true;
    }
  return false;
}

}  // namespace ridge
