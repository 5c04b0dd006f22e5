#include "ridge/distributed/mesh_sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/base/contains.h"
#include "ridge/distributed/partition.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

std::vector<std::map<char, std::int64_t>> list_ring_assignments(const Mesh& mesh, const Network& network) {
  if (network.topology != Topology::ring) return {{}};
  const std::int64_t rings = std::max<std::int64_t>(1, network.links / 2);
  std::vector<std::map<char, std::int64_t>> out{{}};
  for (const auto& [letter, size] : mesh.axes) {
    std::vector<std::map<char, std::int64_t>> next;
    for (const auto& given : out)
      for (std::int64_t r = 1; r <= rings && (std::int64_t{1} << r) <= std::max<std::int64_t>(2, size); ++r) {
        next.push_back(given);
        next.back()[letter] = r;
      }
    out = std::move(next);
  }
  const auto sum = [](const std::map<char, std::int64_t>& all) {
    std::int64_t total = 0;
    for (const auto& each : all) total += each.second;
    return total;
  };
  std::int64_t max_rings = 0;
  for (const auto& each : out)
    if (sum(each) <= rings) max_rings = std::max(max_rings, sum(each));
  if (max_rings > 0) std::erase_if(out, [&](const auto& each) { return sum(each) != max_rings; });
  if (max_rings == 0) out.resize(1);  // with fewer rings than axes, the axes share rings
  return out;
}

namespace {

constexpr std::int64_t max_mesh_chips = 1 << 16;

// True if each tensor axis is split over all open axes or over none of them.
bool always_split_together(const Program& program, const std::string& open_axes) {
  const auto all_or_none = [&](const std::string& letters) {
    const auto matches =
        std::count_if(open_axes.begin(), open_axes.end(), [&](char c) { return letters.find(c) != std::string::npos; });
    return matches == 0 || matches == static_cast<std::ptrdiff_t>(open_axes.size());
  };
  for (const Tensor& tensor : program.tensors) {
    if (!all_or_none(tensor.partial)) return false;
    for (const Axis& axis : tensor.axes)
      if (!all_or_none(axis.mesh)) return false;
  }
  return true;
}

// Returns the dimensions that the open axes split, in order of appearance.
std::vector<std::string> split_dims(const Program& program, const std::string& open_axes) {
  std::vector<std::string> out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.is_named() && axis.mesh.find(open_axes[0]) != std::string::npos && !contains(out, axis.dim))
        out.push_back(axis.dim);
  return out;
}

Result<double> contraction_peak_of(const Program& program, const Machine& machine) {
  std::optional<double> out;
  for (const Work& work : count_work(program, Bindings{})) {
    if (!work.contraction) continue;
    RIDGE_TRY(peak, machine.contraction_peak(work.math));
    if (out && *out != peak->rate.value)
      return input_error("the program's products have different peak rates, so there is no single threshold",
                         "give a program with one of them");
    out = peak->rate.value;
  }
  if (!out) return input_error("the program has no product, so there is no computation to compare with communication");
  return *out;
}

// Adds the thresholds of one interval, in the program's dimensions and then in sizes for one device (B/X).
void add_thresholds(SolvedInterval& out, const std::vector<std::string>& split_dims, const Bindings& dims,
                    const std::vector<std::string>& symbols) {
  const std::string& symbol = symbols.back();
  const std::array<Limiter, 2> names{Limiter::compute, Limiter::network};
  const SizeInterval& s = out.interval;
  for (Threshold& t : find_thresholds({s.flops, s.bytes_sent, out.roofs, names}, dims, symbols))
    out.thresholds.push_back(std::move(t));
  for (const std::string& dim : split_dims) {
    const std::string per_device_dim = fmt::format("{}/{}", dim, symbol);
    const Polynomial full_dim = Polynomial::make_term(1, {per_device_dim, symbol});
    const Ratio ratio = cancel_common_factor(s.flops.substitute(dim, full_dim), s.bytes_sent.substitute(dim, full_dim));
    Bindings others = dims;
    others.erase(dim);
    std::vector<std::string> per_device_symbols{per_device_dim};
    per_device_symbols.insert(per_device_symbols.end(), symbols.begin(), symbols.end());
    for (Threshold& t : find_thresholds({ratio.flops, ratio.bytes, out.roofs, names}, others, per_device_symbols))
      if (t.dim == per_device_dim) out.thresholds.push_back(std::move(t));
  }
}

Status solve_intervals(MeshSizing& out, const Program& program, const Machine& machine, const Network& network,
                       const Bindings& sizes) {
  if (!always_split_together(program, out.open_axes))
    return input_error(
        fmt::format("mesh axes {} do not always split a tensor axis together, so they are not one symbol",
                    out.open_axes),
        "give all but one of them a size with -d, or the number of chips with --chips");
  RIDGE_TRY(peak, contraction_peak_of(program, machine));
  Bindings mesh;
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = sizes.find(axis.name); size != sizes.end()) mesh[axis.name] = size->second;
  RIDGE_TRY(found, find_size_intervals(program, network, out.open_axes, mesh));
  out.symbols.push_back(out.open_axes);
  for (SizeInterval& s : found) {
    if (s.bytes_sent.is_zero()) return input_error("the program sends nothing on any mesh");
    const Ratio ratio = cancel_common_factor(s.flops, s.bytes_sent);
    SolvedInterval solved{std::move(s), RoofRates{peak, 0}, ratio.flops, ratio.bytes};
    solved.roofs = RoofRates{peak, solved.interval.rate};
    add_thresholds(solved, split_dims(program, out.open_axes), sizes, out.symbols);
    out.intervals.push_back(std::move(solved));
  }
  return Done{};
}

// Appends every assignment of sizes to the open axes whose product is `chips`.
void list_axis_sizes(const std::string& open_axes, std::int64_t chips, Bindings& sizes, std::vector<Bindings>& out) {
  if (open_axes.size() == 1) {
    sizes[open_axes] = chips;
    out.push_back(sizes);
    return;
  }
  for (std::int64_t size = 1; size <= chips; ++size) {
    if (chips % size != 0) continue;
    sizes[open_axes.substr(0, 1)] = size;
    list_axis_sizes(open_axes.substr(1), chips / size, sizes, out);
  }
}

Result<MeshChoice> evaluate_choice(const Program& program, const Machine& machine, Network network,
                                   const Bindings& sizes) {
  RIDGE_TRY(found, explain(program, machine, sizes, {}, Thresholds::skipped));
  MeshChoice out;
  for (const MeshAxis& axis : program.mesh) out.mesh.axes.emplace_back(axis.name[0], found.dims.at(axis.name));
  out.placement = place_mesh(out.mesh, network);
  network.mesh = out.mesh.axes;
  std::vector<Work> work = count_work(program, found.dims);
  route_transfers(work, network);
  Bindings all = found.dims;
  for (const auto& [name, part] : largest_shards(program, all)) all[name] = part;
  for (const Work& each : work) out.network_s += network_seconds(each, {all.begin(), all.end()});
  out.math_s = found.total.time_math_s.value_or(0);
  out.memory_s = found.total.time_memory_s.value_or(0);
  return out;
}

Status search_mesh_sizes(MeshSizing& out, const Program& program, const Machine& machine, const Network& network,
                         const Bindings& given, std::int64_t chips) {
  if (chips < 2 || chips > max_mesh_chips)
    return usage_error(fmt::format("expected 2 to {} chips, found {}", max_mesh_chips, chips), "--chips 64");
  for (const std::string& dim : program.dim_names())
    if (!program.bind_sizes(given)->contains(dim))
      return usage_error(fmt::format("dimension {} has no value; comparing meshes needs all sizes", dim),
                         fmt::format("-d {}=4096", dim));
  Bindings sizes = given;
  std::vector<Bindings> all;
  list_axis_sizes(out.open_axes, chips, sizes, all);
  for (const Bindings& each : all) {
    Mesh mesh;
    for (const char letter : out.open_axes) mesh.axes.emplace_back(letter, each.at(std::string(1, letter)));
    for (const auto& rings : list_ring_assignments(mesh, network)) {
      Network ring_network = network;
      ring_network.rings_per_axis = rings;
      RIDGE_TRY(choice, evaluate_choice(program, machine, ring_network, each));
      out.choices.push_back(std::move(choice));
    }
  }
  std::stable_sort(out.choices.begin(), out.choices.end(), [](const MeshChoice& a, const MeshChoice& b) {
    return std::pair(a.slowest_seconds(), a.network_s) < std::pair(b.slowest_seconds(), b.network_s);
  });
  return Done{};
}

}  // namespace

double MeshChoice::slowest_seconds() const { return std::max({math_s, memory_s, network_s}); }

Result<MeshSizing> solve_mesh_sizes(const Program& program, const Machine& machine, const Bindings& given,
                                    std::int64_t chips) {
  RIDGE_TRY(sizes, program.bind_sizes(given));
  RIDGE_TRY(network, make_network(machine));
  MeshSizing out;
  out.program_text = program.text;
  out.machine = machine.name;
  out.symbols = program.dim_names();
  for (const MeshAxis& axis : program.mesh)
    if (!sizes.contains(axis.name)) out.open_axes += axis.name;
  if (program.mesh.empty())
    return usage_error("expected a program that is sharded",
                       "--chips 8 searches for the best sharding of an unsharded program");
  if (out.open_axes.empty())
    return usage_error("every mesh axis has a size already", "`ridge explain` reports the work of each device");
  out.network = describe_links(network);
  out.outer_links = describe_outer_links(network, chips);
  RIDGE_TRY_STATUS(chips == 0 ? solve_intervals(out, program, machine, network, sizes)
                              : search_mesh_sizes(out, program, machine, network, given, chips));
  return out;
}

}  // namespace ridge
