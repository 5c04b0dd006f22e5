#include "ridge/measure/ranks/refuse.h"

#include <fmt/format.h>

#include "ridge/distributed/cuts.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

const Tensor& at(const Program& program, int t) { return program.tensors[static_cast<std::size_t>(t)]; }

}  // namespace

std::optional<Error> refuse_tensors(const Program& program) {
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes) {
      if (axis.mesh.empty()) continue;
      if (is_scaled(tensor.dtype))
        return input_error(
            fmt::format("cannot run '{}' on several ranks: it is split, and its {} elements share scales", tensor.name,
                        name(tensor.dtype)),
            "do not split it, or give it another dtype");
      if (!lengths_along(program, axis.dim).empty())
        return input_error(fmt::format("cannot run '{}' on several ranks: it is split along {}, which has sequences of "
                                       "several lengths",
                                       tensor.name, axis.dim),
                           "split it along another dimension");
    }
  return std::nullopt;
}

std::optional<Error> refuse_groups(const Program& program, const Contraction& product, const Bindings& sizes,
                                   const Mesh& mesh) {
  if (!product.grouped) return std::nullopt;
  const Contraction::Grouped& g = *product.grouped;
  const auto letters = [&](int t, const std::string& dim) -> std::string {
    for (const Axis& axis : at(program, t).axes)
      if (axis.dim == dim) return axis.mesh;
    return "";
  };
  const int other = g.tensor == product.left ? product.right : product.left;
  const std::string whole = letters(other, g.dim), group = letters(g.tensor, g.group);
  const std::int64_t parts = mesh.size(whole);
  if (whole == group && (parts == 1 || sizes.at(g.group) % parts == 0)) return std::nullopt;
  return input_error(
      fmt::format("cannot run on several ranks: '{}' splits {} into {} parts, '{}' splits {} into {}, and each {} "
                  "covers {} of {}",
                  at(program, other).name, g.dim, parts, at(program, g.tensor).name, g.group, mesh.size(group), g.group,
                  g.each, g.dim),
      fmt::format("split both over the same mesh axes, with a size that divides {}", g.group));
}

std::optional<Error> refuse_move(const Statement& statement, const Move& move, DType dtype) {
  const bool adds = move.kind == Collective::all_reduce || move.kind == Collective::reduce_scatter;
  if (adds && !transport::adds(dtype))
    return input_error(fmt::format("cannot run '{}' on several ranks: its partial sums in {} would be truncated",
                                   statement.text, name(dtype)),
                       "declare the result as int32 or f32");
  if (is_scaled(dtype))
    return input_error(
        fmt::format("cannot run '{}' on several ranks: elements in {} share scales", statement.text, name(dtype)),
        "do not split it, or give it another dtype");
  return std::nullopt;
}

}  // namespace ridge::ranks
