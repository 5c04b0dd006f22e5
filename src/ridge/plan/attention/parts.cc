#include "ridge/plan/attention/parts.h"

#include <algorithm>

namespace ridge {
namespace {

std::int64_t extent(const Shape& shape, const Dims& dims) {
  std::int64_t n = 1;
  for (const std::string& dim : dims) n *= along(shape, dim).extent;
  return n;
}

std::optional<ops::HeadsLayout> layout(const Shape& shape, const Dims& outer, const Dims& heads,
                                       const std::string& rows, const Dims& width) {
  const auto outer_stride = merged_stride(shape, outer), head = merged_stride(shape, heads),
             element = merged_stride(shape, width);
  if (!outer_stride || !head || !element) return std::nullopt;
  if (extent(shape, width) > 1 && *element != 1) return std::nullopt;
  return ops::HeadsLayout{*outer_stride, *head, rows.empty() ? 0 : along(shape, rows).stride};
}

struct Falling {  // assignment of batch and row dimensions
  Dims outer, heads, all_heads;
  std::string rows;
};

bool place(ops::AttentionProblem& p, const AttentionParts& parts, const Falling& by, const Shape& q, const Shape& k,
           const std::vector<LaidOut>& all) {
  for (const LaidOut& one : all) {
    const Dims& width = one.of_values ? parts.out : parts.width;
    const auto here =
        layout(*one.shape, by.outer, one.of_rows ? by.all_heads : by.heads, one.of_rows ? by.rows : parts.keys, width);
    if (!here || extent(*one.shape, width) != extent(q, parts.width)) return false;
    *one.to = *here;
  }
  p.outer = extent(q, by.outer);
  p.heads = extent(q, by.all_heads);
  p.key_heads = extent(q, by.heads);
  p.rows = by.rows.empty() ? 1 : along(q, by.rows).extent;
  p.keys = along(k, parts.keys).extent;
  p.width = extent(q, parts.width);
  return true;
}

}  // namespace

Dims dims_of(const Shape& shape) {
  Dims out;
  for (const SizedAxis& axis : shape)
    if (axis.extent > 1) out.push_back(axis.dim);
  return out;
}
bool has_dim(const Dims& dims, const std::string& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}
bool contains_same(const Dims& dims, std::initializer_list<const Dims*> groups) {
  Dims all;
  for (const Dims* group : groups) all.insert(all.end(), group->begin(), group->end());
  Dims mine = dims;
  std::sort(all.begin(), all.end());
  std::sort(mine.begin(), mine.end());
  return all == mine;
}

AttentionParts attention_parts(const Shape& q, const Shape& k, const Shape& scores, const std::string& keys) {
  AttentionParts out;
  out.keys = keys;
  const Dims of_k = dims_of(k), of_s = dims_of(scores);
  for (const std::string& dim : dims_of(q)) {
    const bool in_k = has_dim(of_k, dim), in_s = has_dim(of_s, dim);
    if (in_k && in_s) out.batch.push_back(dim);
    if (!in_k && in_s) out.rows.push_back(dim);
    if (in_k && !in_s) out.width.push_back(dim);
  }
  return out;
}

bool lay_out(ops::AttentionProblem& problem, const AttentionParts& parts, const std::string& masked, const Shape& q,
             const Shape& k, const std::vector<LaidOut>& all) {
  Dims candidates = parts.rows;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const std::string& a, const std::string& b) { return along(q, a).extent > along(q, b).extent; });
  if (!masked.empty()) candidates = {masked};
  if (candidates.empty()) candidates.emplace_back();
  for (const std::string& rows : candidates)
    for (std::size_t outer = parts.outer.value_or(0); outer <= parts.outer.value_or(parts.batch.size()); ++outer) {
      const auto middle = parts.batch.begin() + static_cast<std::ptrdiff_t>(outer);
      Falling by{{parts.batch.begin(), middle}, {middle, parts.batch.end()}, {}, rows};
      by.all_heads = by.heads;
      for (const std::string& dim : parts.rows)
        if (dim != rows) by.all_heads.push_back(dim);
      if (place(problem, parts, by, q, k, all)) return true;
    }
  return false;
}

}  // namespace ridge
