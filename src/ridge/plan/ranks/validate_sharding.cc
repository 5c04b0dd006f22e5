#include "ridge/plan/ranks/rank_schedule.h"

#include <fmt/format.h>

#include "ridge/distributed/partition.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

const Tensor& tensor_at(const Program& program, int t) { return program.tensors[t]; }

}  // namespace

Status validate_tensors(const Program& program) {
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes) {
      if (axis.mesh.empty()) continue;
      if (is_block_scaled(tensor.dtype))
        return input_error(
            fmt::format("cannot run '{}' on several ranks: it is split, and its {} elements share scales", tensor.name,
                        dtype_name(tensor.dtype)),
            "do not split it, or give it another dtype");
      if (!lengths_along(program, axis.dim).empty())
        return input_error(fmt::format("cannot run '{}' on several ranks: it is split along {}, which has sequences of "
                                       "several lengths",
                                       tensor.name, axis.dim),
                           "split it along another dimension");
    }
  return Done{};
}

Status validate_grouped_axes(const Program& program, const Contraction& product, const Bindings& sizes,
                             const Mesh& mesh) {
  if (!product.grouped) return Done{};
  const Contraction::GroupedOperand& g = *product.grouped;
  const auto mesh_axes_of = [&](int t, const std::string& dim) -> std::string {
    for (const Axis& axis : tensor_at(program, t).axes)
      if (axis.dim == dim) return axis.mesh;
    return "";
  };
  const int other = g.tensor == product.left ? product.right : product.left;
  const std::string dim_axes = mesh_axes_of(other, g.dim), group_axes = mesh_axes_of(g.tensor, g.group);
  const std::int64_t parts = mesh.size(dim_axes);
  if (dim_axes == group_axes && (parts == 1 || sizes.at(g.group) % parts == 0)) return Done{};
  return input_error(
      fmt::format("cannot run on several ranks: '{}' splits {} into {} parts, '{}' splits {} into {}, and each {} "
                  "covers {} of {}",
                  tensor_at(program, other).name, g.dim, parts, tensor_at(program, g.tensor).name, g.group,
                  mesh.size(group_axes), g.group, g.group_size, g.dim),
      fmt::format("split both over the same mesh axes, with a size that divides {}", g.group));
}

Status validate_redistribution(const Statement& statement, const RedistributionStep& step, DType dtype) {
  const bool is_reduction = step.collective == Collective::all_reduce || step.collective == Collective::reduce_scatter;
  if (is_reduction && !transport::can_reduce(dtype))
    return input_error(fmt::format("cannot run '{}' on several ranks: its partial sums in {} would be truncated",
                                   statement.text, dtype_name(dtype)),
                       "declare the result as int32 or f32");
  if (is_block_scaled(dtype))
    return input_error(
        fmt::format("cannot run '{}' on several ranks: elements in {} share scales", statement.text, dtype_name(dtype)),
        "do not split it, or give it another dtype");
  return Done{};
}

}  // namespace ridge::ranks
