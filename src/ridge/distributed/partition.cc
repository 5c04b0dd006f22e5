#include "ridge/distributed/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ridge/base/contains.h"
#include "ridge/program/routine.h"
#include "ridge/roofline/masks.h"

namespace ridge {
namespace {

const Tensor& tensor_at(const Program& program, int i) { return program.tensors[i]; }

// Returns the dimension of the index space that an axis belongs to: H for the G of G = H/8.
std::string partitioned_dim(const Statement& statement, int operand, const Axis& axis) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  return product && is_grouped_axis(*product, operand, axis) ? product->grouped->dim : axis.dim;
}

Layout layout_under(const Program& program, const Statement& statement, int t, const Partition& partition) {
  Layout out;
  for (const Axis& axis : tensor_at(program, t).axes) {
    const auto found = partition.find(partitioned_dim(statement, t, axis));
    out.mesh_axes.push_back(axis.is_named() && found != partition.end() ? found->second : "");
  }
  return out;
}

std::vector<int> tensors_of(const Statement& statement) {
  std::vector<int> out = statement_operands(statement);
  out.push_back(statement.result());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Calls `visit` with every assignment of one of `options`, or -1 for none, to each mesh axis.
void for_each_choice(const Mesh& mesh, int options, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> chosen(mesh.axes.size(), -1);
  for (;;) {
    visit(chosen);
    std::size_t at = 0;
    while (at < chosen.size() && ++chosen[at] == options) chosen[at++] = -1;
    if (at == chosen.size()) return;
  }
}

bool has_lengths(const Program& program, const Axis& axis) {
  return std::any_of(program.dims.begin(), program.dims.end(),
                     [&](const Dimension& dim) { return dim.name == axis.dim && !dim.lengths.empty(); });
}

// True if every device gets a part. Along the last axis of a scaled dtype, parts must be equal and consist of full
// blocks. Dimensions with several sequence lengths must divide evenly.
bool every_device_has_part(const Program& program, const Tensor& tensor, const Layout& layout, const Mesh& mesh,
                           const Bindings& sizes) {
  for (std::size_t i = 0; i < layout.mesh_axes.size(); ++i) {
    const std::int64_t parts = mesh.size(layout.mesh_axes[i]), length = axis_extent(tensor.axes[i], sizes);
    if (parts == 1) continue;
    const bool has_shared_scales = is_block_scaled(tensor.dtype) && i + 1 == layout.mesh_axes.size();
    if (length < parts) return false;
    if (has_shared_scales && length % (parts * dtype_info(tensor.dtype).block) != 0) return false;
    if (has_lengths(program, tensor.axes[i]) && length % parts != 0) return false;
  }
  return true;
}

bool every_device_has_part(const Program& program, const Statement& statement, const Partition& partition,
                           const Mesh& mesh, const Bindings& sizes) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  if (product && product->grouped)  // members of a group stay on its device
    if (const auto found = partition.find(product->grouped->dim); found != partition.end())
      if (sizes.at(product->grouped->group) % mesh.size(found->second) != 0) return false;
  const std::vector<int> all = tensors_of(statement);
  return std::all_of(all.begin(), all.end(), [&](int t) {
    return every_device_has_part(program, tensor_at(program, t), layout_under(program, statement, t, partition), mesh,
                                 sizes);
  });
}

}  // namespace

std::string format_partition(const Partition& partition) {
  std::string out;
  for (const auto& [dim, letters] : partition)
    out += fmt::format("{}{} over {}", out.empty() ? "" : ", ", dim, letters);
  return out.empty() ? "unsplit" : out;
}

std::int64_t axis_extent(const Axis& axis, const Bindings& sizes) {
  if (!axis.is_named()) return axis.literal;
  const auto found = sizes.find(axis.dim);
  return found == sizes.end() ? 1 : found->second;
}

std::vector<std::int64_t> tensor_extents(const Tensor& tensor, const Bindings& sizes) {
  std::vector<std::int64_t> out;
  for (const Axis& axis : tensor.axes) out.push_back(axis_extent(axis, sizes));
  return out;
}

std::vector<std::string> partitionable_dims(const Program& program, const Statement& statement) {
  std::vector<std::string> out;
  if (routine_of(statement)) return out;
  for (const int t : tensors_of(statement))
    for (const Axis& axis : tensor_at(program, t).axes) {
      const std::string dim = partitioned_dim(statement, t, axis);
      if (axis.is_named() && !contains(out, dim)) out.push_back(dim);
    }
  return out;
}

Layout operand_layout(const Program& program, const Statement& statement, int operand, const Partition& partition) {
  return layout_under(program, statement, operand, partition);
}

Layout result_layout(const Program& program, const Statement& statement, const Partition& partition) {
  Layout out = layout_under(program, statement, statement.result(), partition);
  if (const auto* product = std::get_if<Contraction>(&statement.op))
    for (const std::string& dim : product->contracted)
      if (const auto found = partition.find(dim); found != partition.end()) out.partial_over += found->second;
  std::sort(out.partial_over.begin(), out.partial_over.end());
  return out;
}

std::vector<Partition> list_partitions(const Program& program, const Statement& statement, const Mesh& mesh,
                                       const Bindings& sizes) {
  const std::vector<std::string> dims = partitionable_dims(program, statement);
  std::vector<Partition> out;
  for_each_choice(mesh, static_cast<int>(dims.size()), [&](const std::vector<int>& chosen) {
    Partition partition;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] >= 0) partition[dims[chosen[i]]] += mesh.axes[i].first;
    if (every_device_has_part(program, statement, partition, mesh, sizes)) out.push_back(std::move(partition));
  });
  return out;
}

std::vector<Layout> list_layouts(const Program& program, const Tensor& tensor, const Mesh& mesh,
                                 const Bindings& sizes) {
  std::vector<Layout> out;
  for_each_choice(mesh, static_cast<int>(tensor.axes.size()), [&](const std::vector<int>& chosen) {
    Layout layout{.mesh_axes = std::vector<std::string>(tensor.axes.size())};
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] >= 0) layout.mesh_axes[chosen[i]] += mesh.axes[i].first;
    for (std::size_t i = 0; i < layout.mesh_axes.size(); ++i)
      if (!tensor.axes[i].is_named() && !layout.mesh_axes[i].empty()) return;
    if (every_device_has_part(program, tensor, layout, mesh, sizes)) out.push_back(std::move(layout));
  });
  return out;
}

Program make_statement_program(const Program& program, const Statement& statement, const Mesh& mesh,
                               const Partition& partition) {
  Program out;
  out.source = program.source;
  out.dims = program.dims;
  out.tensors = program.tensors;
  for (const auto& [letter, size] : mesh.axes) out.mesh.push_back({.name = std::string(1, letter), .size = size});
  for (const int t : tensors_of(statement))
    set_layout(out.tensors[t], t == statement.result() ? result_layout(program, statement, partition)
                                                       : layout_under(program, statement, t, partition));
  if (has_index_masks(program)) {
    out.statements = program.statements;
  } else {
    out.statements = {statement};
  }
  for (Statement& each : out.statements)
    if (auto* product = std::get_if<Contraction>(&each.op); product && each.result() == statement.result())
      product->partial = result_layout(program, statement, partition).partial_over;
  return out;
}

}  // namespace ridge
