#include "ridge/distributed/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ridge/program/routine.h"

namespace ridge {
namespace {

const Tensor& tensor(const Program& program, int i) { return program.tensors[static_cast<std::size_t>(i)]; }

// The dimension of the index space for which an axis stands: H for the G of G = H/8.
std::string stands_for(const Statement& statement, int operand, const Axis& axis) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  return product && is_group(*product, operand, axis) ? product->grouped->dim : axis.dim;
}

Layout under(const Program& program, const Statement& statement, int t, const Cuts& cuts) {
  Layout out;
  for (const Axis& axis : tensor(program, t).axes) {
    const auto cut = cuts.find(stands_for(statement, t, axis));
    out.cut.push_back(axis.named() && cut != cuts.end() ? cut->second : "");
  }
  return out;
}

std::vector<int> tensors_of(const Statement& statement) {
  std::vector<int> out = operands(statement);
  out.push_back(statement.result());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Calls `use` with each choice of one of `options` or none (-1) for each mesh axis.
void every_choice(const Mesh& mesh, int options, const std::function<void(const std::vector<int>&)>& use) {
  std::vector<int> chosen(mesh.axes.size(), -1);
  for (;;) {
    use(chosen);
    std::size_t at = 0;
    while (at < chosen.size() && ++chosen[at] == options) chosen[at++] = -1;
    if (at == chosen.size()) return;
  }
}

bool has_lengths(const Program& program, const Axis& axis) {
  return std::any_of(program.dims.begin(), program.dims.end(),
                     [&](const Dimension& dim) { return dim.name == axis.dim && !dim.lengths.empty(); });
}

// Whether every device has a part, of whole blocks where elements along the last axis share a scale; blocks and
// sequences of several lengths fall into equal parts or none.
bool all_have_parts(const Program& program, const Tensor& tensor, const Layout& lies, const Mesh& mesh,
                    const Bindings& sizes) {
  for (std::size_t i = 0; i < lies.cut.size(); ++i) {
    const std::int64_t parts = mesh.size(lies.cut[i]), length = extent(tensor.axes[i], sizes);
    if (parts == 1) continue;
    const bool blocks = is_scaled(tensor.dtype) && i + 1 == lies.cut.size();
    if (length < parts) return false;
    if (blocks && length % (parts * info(tensor.dtype).block) != 0) return false;
    if (has_lengths(program, tensor.axes[i]) && length % parts != 0) return false;
  }
  return true;
}

bool all_have_parts(const Program& program, const Statement& statement, const Cuts& cuts, const Mesh& mesh,
                    const Bindings& sizes) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  if (product && product->grouped)  // a group's members lie where it does
    if (const auto cut = cuts.find(product->grouped->dim); cut != cuts.end())
      if (sizes.at(product->grouped->group) % mesh.size(cut->second) != 0) return false;
  const std::vector<int> all = tensors_of(statement);
  return std::all_of(all.begin(), all.end(), [&](int t) {
    return all_have_parts(program, tensor(program, t), under(program, statement, t, cuts), mesh, sizes);
  });
}

}  // namespace

std::string text(const Cuts& cuts) {
  std::string out;
  for (const auto& [dim, letters] : cuts) out += fmt::format("{}{} over {}", out.empty() ? "" : ", ", dim, letters);
  return out.empty() ? "whole" : out;
}

std::int64_t extent(const Axis& axis, const Bindings& sizes) {
  if (!axis.named()) return axis.literal;
  const auto found = sizes.find(axis.dim);
  return found == sizes.end() ? 1 : found->second;
}

std::vector<std::int64_t> extents(const Tensor& tensor, const Bindings& sizes) {
  std::vector<std::int64_t> out;
  for (const Axis& axis : tensor.axes) out.push_back(extent(axis, sizes));
  return out;
}

std::vector<std::string> shareable(const Program& program, const Statement& statement) {
  std::vector<std::string> out;
  for (const int t : tensors_of(statement))
    for (const Axis& axis : tensor(program, t).axes) {
      const std::string dim = stands_for(statement, t, axis);
      if (!axis.named() || std::find(out.begin(), out.end(), dim) != out.end()) continue;
      if (uncuttable(program, statement, dim).empty()) out.push_back(dim);
    }
  return out;
}

Layout operand_under(const Program& program, const Statement& statement, int operand, const Cuts& cuts) {
  return under(program, statement, operand, cuts);
}

Layout result_under(const Program& program, const Statement& statement, const Cuts& cuts) {
  Layout out = under(program, statement, statement.result(), cuts);
  if (const auto* product = std::get_if<Contraction>(&statement.op))
    for (const std::string& dim : product->contracted)
      if (const auto cut = cuts.find(dim); cut != cuts.end()) out.addends += cut->second;
  std::sort(out.addends.begin(), out.addends.end());
  return out;
}

std::vector<Cuts> every_cut(const Program& program, const Statement& statement, const Mesh& mesh,
                            const Bindings& sizes) {
  const std::vector<std::string> dims = shareable(program, statement);
  std::vector<Cuts> out;
  every_choice(mesh, static_cast<int>(dims.size()), [&](const std::vector<int>& chosen) {
    Cuts cuts;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] >= 0) cuts[dims[static_cast<std::size_t>(chosen[i])]] += mesh.axes[i].first;
    if (all_have_parts(program, statement, cuts, mesh, sizes)) out.push_back(std::move(cuts));
  });
  return out;
}

std::vector<Layout> every_layout(const Program& program, const Tensor& tensor, const Mesh& mesh,
                                 const Bindings& sizes) {
  std::vector<Layout> out;
  every_choice(mesh, static_cast<int>(tensor.axes.size()), [&](const std::vector<int>& chosen) {
    Layout layout{.cut = std::vector<std::string>(tensor.axes.size())};
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] >= 0) layout.cut[static_cast<std::size_t>(chosen[i])] += mesh.axes[i].first;
    for (std::size_t i = 0; i < layout.cut.size(); ++i)
      if (!tensor.axes[i].named() && !layout.cut[i].empty()) return;
    if (all_have_parts(program, tensor, layout, mesh, sizes)) out.push_back(std::move(layout));
  });
  return out;
}

Program alone(const Program& program, const Statement& statement, const Mesh& mesh, const Cuts& cuts) {
  Program out;
  out.source = program.source;
  out.dims = program.dims;
  out.tensors = program.tensors;
  for (const auto& [letter, size] : mesh.axes) out.mesh.push_back({.name = std::string(1, letter), .size = size});
  for (const int t : tensors_of(statement))
    lay(out.tensors[static_cast<std::size_t>(t)],
        t == statement.result() ? result_under(program, statement, cuts) : under(program, statement, t, cuts));
  out.statements = {statement};
  if (auto* product = std::get_if<Contraction>(&out.statements[0].op))
    product->partial = result_under(program, statement, cuts).addends;
  return out;
}

}  // namespace ridge
