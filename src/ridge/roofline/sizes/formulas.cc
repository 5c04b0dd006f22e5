#include "ridge/roofline/sizes/formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ridge/roofline/sizes/lives.h"
#include "ridge/roofline/sizes/parts.h"

namespace ridge {
namespace {

// Dimensions that have a size of their own, then those that follow them, each behind what it follows.
void add_dimensions(const Program& program, const Bindings& given, const Bindings& bound, Formulas& out) {
  std::set<std::string> there;
  const auto own = [&](const Dimension& dim) {
    return given.contains(dim.name) || !dim.value || dim.value->constant().has_value();
  };
  for (const Dimension& dim : program.dims) {
    if (!own(dim)) continue;
    SizeFormula size{.name = dim.name};
    if (const auto value = bound.find(dim.name); value != bound.end()) size.value = value->second;
    out.sizes.push_back(std::move(size));
    there.insert(dim.name);
  }
  for (bool again = true; again;) {
    again = false;
    for (const Dimension& dim : program.dims) {
      if (own(dim) || there.contains(dim.name)) continue;
      const std::vector<std::string> symbols = dim.value->symbols();
      if (!std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return there.contains(s); }))
        continue;
      out.sizes.push_back({.name = dim.name, .follows = *dim.value});
      there.insert(dim.name);
      again = true;
    }
  }
}

bool counts(const Work& work, const std::string& symbol) { return work.flops.degree(symbol) > 0; }

void add_masks(const Program& program, Formulas& out) {
  for (const Mask& mask : masks_of(program).all) {
    const auto here = [&](const Work& work) { return counts(work, mask.symbol); };
    if (std::any_of(out.statements.begin(), out.statements.end(), here))
      out.sizes.push_back({.name = mask.symbol, .mask = mask});
  }
}

// Every statement by itself, and all of them as one where that keeps something inside.
void add_kernels(const Program& program, const Bindings& mesh, Formulas& out) {
  std::vector<int> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  for (const int s : all) out.kernels.push_back({{s}, out.statements[static_cast<std::size_t>(s)].bytes()});
  const auto inside = [](const Tensor& t) { return t.role == Role::intermediate; };
  if (std::none_of(program.tensors.begin(), program.tensors.end(), inside)) return;
  const Moved moved = moved_by(program, all);
  out.fused = KernelFormula{all, {}};
  for (const auto* tensors : {&moved.read, &moved.written})
    for (const int t : *tensors)
      out.fused->bytes += stored_bytes_in_parts(program, program.tensors[static_cast<std::size_t>(t)], mesh);
}

Result<Bindings> mesh_of(const Program& program, const Bindings& bound, const std::optional<Split>& cut) {
  Bindings out;
  for (const MeshAxis& axis : program.mesh) {
    const auto size = bound.find(axis.name);
    if (size == bound.end())
      return input_error(
          fmt::format("mesh axis {} has no size; expected one to count what each device does", axis.name),
          fmt::format("-d {0}=4, or a line mesh {0} = 4", axis.name));
    out.insert(*size);
  }
  if (cut) out[split_axis] = cut->chips;
  return out;
}

}  // namespace

Result<Formulas> formulas_of(const Program& program, const Bindings& given, const std::optional<Split>& cut) {
  const auto bound = program.bind(given);
  if (!bound) return bound.error();
  const auto mesh = mesh_of(program, *bound, cut);
  if (!mesh) return mesh.error();
  const Program lies = cut ? sharded(program, *cut) : program;
  Formulas out{.sizes = {}, .statements = count_in_parts(lies, *mesh), .tensors = {}, .kernels = {}};
  add_dimensions(program, given, *bound, out);
  add_masks(program, out);
  for (const PartOf& part : all_parts(lies, *mesh)) out.sizes.push_back({.name = part.name, .part = part});
  const std::vector<Life> held = lives(lies);
  for (std::size_t t = 0; t < held.size(); ++t)
    out.tensors.push_back(
        {lies.tensors[t].name, stored_bytes_in_parts(lies, lies.tensors[t], *mesh), held[t].begin, held[t].end});
  add_kernels(lies, *mesh, out);
  return out;
}

}  // namespace ridge
