#include "ridge/roofline/sizes/formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ridge/roofline/sizes/live_ranges.h"
#include "ridge/roofline/sizes/moved_tensors.h"

namespace ridge {
namespace {

// Adds independent dimensions, then the derived ones in order of dependence.
void add_dimensions(const Program& program, const Bindings& given, const Bindings& bound, Formulas& out) {
  std::set<std::string> defined;
  const auto is_independent = [&](const Dimension& dim) {
    return given.contains(dim.name) || !dim.value || dim.value->as_constant().has_value();
  };
  for (const Dimension& dim : program.dims) {
    if (!is_independent(dim)) continue;
    SizeFormula size{.name = dim.name};
    if (const auto value = bound.find(dim.name); value != bound.end()) size.value = value->second;
    out.sizes.push_back(std::move(size));
    defined.insert(dim.name);
  }
  for (bool again = true; again;) {
    again = false;
    for (const Dimension& dim : program.dims) {
      if (is_independent(dim) || defined.contains(dim.name)) continue;
      const std::vector<std::string> symbols = dim.value->symbols();
      if (!std::all_of(symbols.begin(), symbols.end(), [&](const std::string& s) { return defined.contains(s); }))
        continue;
      out.sizes.push_back({.name = dim.name, .formula = *dim.value});
      defined.insert(dim.name);
      again = true;
    }
  }
}

// Adds the masks that some count depends on. Flat programs do not count regions, but one that leaves nothing out is a
// product of sizes.
void add_masks(const Program& program, const Bindings& given, Formulas& out) {
  for (const IndexMask& mask : find_masks(program).all) {
    const auto is_counted = [&](const Work& work) { return uses_symbol(work, mask.symbol); };
    if (std::none_of(out.statements.begin(), out.statements.end(), is_counted)) continue;
    const bool is_on_one_chip = mask.region && mask.region->mesh.empty();
    auto form = is_on_one_chip ? mask_closed_form(mask, program, given) : std::nullopt;
    if (form)
      out.sizes.push_back({.name = mask.symbol, .formula = std::move(form)});
    else
      out.sizes.push_back({.name = mask.symbol, .mask = mask});
  }
}

// Adds one kernel per statement, and one for all of them if that moves fewer bytes.
void add_kernels(const Program& program, const Bindings& mesh, Formulas& out) {
  std::vector<int> all(program.statements.size());
  std::iota(all.begin(), all.end(), 0);
  for (const int s : all) out.kernels.push_back({{s}, out.statements[s].bytes()});
  if (!reads_results(program)) return;
  const MovedTensors moved = list_moved_tensors(program, all);
  out.fused = KernelFormula{all, {}};
  const auto stored = [&](int t) { return stored_bytes_with_shard_symbols(program, program.tensors[t], mesh); };
  for (const int t : moved.read) out.fused->bytes += merge_reads(list_reads(out.statements, all, t), stored(t));
  for (const int t : moved.written) out.fused->bytes += stored(t);
}

Result<Bindings> find_mesh_sizes(const Program& program, const Bindings& bound,
                                 const std::optional<DimensionSplit>& split) {
  Bindings out;
  for (const MeshAxis& axis : program.mesh) {
    const auto size = bound.find(axis.name);
    if (size == bound.end())
      return input_error(
          fmt::format("mesh axis {} has no size; expected one to count what each device does", axis.name),
          fmt::format("-d {0}=4, or a line mesh {0} = 4", axis.name));
    out.insert(*size);
  }
  if (split) out[split_axis] = split->chips;
  return out;
}

}  // namespace

Result<Formulas> make_formulas(const Program& program, const Bindings& given,
                               const std::optional<DimensionSplit>& split) {
  RIDGE_TRY(bound, program.bind_sizes(given));
  RIDGE_TRY(mesh, find_mesh_sizes(program, bound, split));
  const Program device_program = split ? shard_program(program, *split) : program;
  Formulas out{
      .sizes = {}, .statements = count_work_with_shard_symbols(device_program, mesh), .tensors = {}, .kernels = {}};
  add_dimensions(program, given, bound, out);
  add_masks(device_program, given, out);
  for (const DimShard& shard : list_shards(device_program, mesh))
    out.sizes.push_back({.name = shard.name, .shard = shard});
  const std::vector<LiveRange> live_ranges = find_live_ranges(device_program);
  for (std::size_t t = 0; t < live_ranges.size(); ++t) {
    const Tensor& tensor = device_program.tensors[t];
    const bool in_place = tensor.replaced >= 0;
    out.tensors.push_back({tensor.name,
                           in_place ? Polynomial() : stored_bytes_with_shard_symbols(device_program, tensor, mesh),
                           live_ranges[t].begin, live_ranges[t].end});
  }
  add_kernels(device_program, mesh, out);
  return out;
}

}  // namespace ridge
