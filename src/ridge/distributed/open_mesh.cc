#include "ridge/distributed/open_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/distributed/cuts.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// A torus of R rings through each chip: every way to give them to the mesh's axes, each axis at least one if there are
// enough, and never more than its size can fill with rings of two.
std::vector<std::map<char, std::int64_t>> rings_of(const Mesh& mesh, const Network& network) {
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
  std::int64_t most = 0;
  for (const auto& each : out)
    if (sum(each) <= rings) most = std::max(most, sum(each));
  if (most > 0) std::erase_if(out, [&](const auto& each) { return sum(each) != most; });
  if (most == 0) out.resize(1);  // fewer rings than axes: they share
  return out;
}

namespace {

constexpr std::int64_t most_chips = 1 << 16;

// Every tensor is cut by all of the open axes at one place, or by none.
bool stand_together(const Program& program, const std::string& axes) {
  const auto all_or_none = [&](const std::string& letters) {
    const auto held =
        std::count_if(axes.begin(), axes.end(), [&](char c) { return letters.find(c) != std::string::npos; });
    return held == 0 || held == static_cast<std::ptrdiff_t>(axes.size());
  };
  for (const Tensor& tensor : program.tensors) {
    if (!all_or_none(tensor.partial)) return false;
    for (const Axis& axis : tensor.axes)
      if (!all_or_none(axis.mesh)) return false;
  }
  return true;
}

// Dimensions that the open axes cut, in order.
std::vector<std::string> dims_cut(const Program& program, const std::string& axes) {
  std::vector<std::string> out;
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.named() && axis.mesh.find(axes[0]) != std::string::npos &&
          std::find(out.begin(), out.end(), axis.dim) == out.end())
        out.push_back(axis.dim);
  return out;
}

Result<double> peak_of(const Program& program, const Machine& machine) {
  std::optional<double> out;
  for (const Work& work : count(program, Bindings{})) {
    if (!work.contraction) continue;
    const auto peak = machine.contraction_peak(work.math);
    if (!peak) return peak.error();
    if (out && *out != (*peak)->rate.value)
      return input_error("its products are computed at several rates, so that there is no one threshold",
                         "ask for one of them");
    out = (*peak)->rate.value;
  }
  if (!out) return input_error("the program has no product, so that nothing is computed beside what is sent");
  return *out;
}

// Of one stretch, in the program's dimensions and then in B/X.
void add_thresholds(OpenStretch& out, const std::vector<std::string>& cut, const Bindings& dims,
                    const std::vector<std::string>& order) {
  const std::string& symbol = order.back();
  const std::array<Limiter, 2> names{Limiter::compute, Limiter::network};
  const Stretch& s = out.stretch;
  for (Threshold& t : thresholds({s.flops, s.sent, out.roofs, names}, dims, order))
    out.thresholds.push_back(std::move(t));
  for (const std::string& dim : cut) {
    const std::string share = fmt::format("{}/{}", dim, symbol);
    const Polynomial whole = Polynomial::product(1, {share, symbol});
    const Ratio per = reduced(s.flops.substitute(dim, whole), s.sent.substitute(dim, whole));
    Bindings others = dims;
    others.erase(dim);
    std::vector<std::string> shares{share};
    shares.insert(shares.end(), order.begin(), order.end());
    for (Threshold& t : thresholds({per.flops, per.bytes, out.roofs, names}, others, shares))
      if (t.dim == share) out.thresholds.push_back(std::move(t));
  }
}

Status solve(OpenMesh& out, const Program& program, const Machine& machine, const Network& network,
             const Bindings& sizes) {
  if (!stand_together(program, out.axes))
    return input_error(
        fmt::format("mesh axes {} do not always cut together, so that they are several symbols", out.axes),
        "give all but one of them a size with -d, or the number of chips with --chips");
  const auto peak = peak_of(program, machine);
  if (!peak) return peak.error();
  Bindings mesh;
  for (const MeshAxis& axis : program.mesh)
    if (const auto size = sizes.find(axis.name); size != sizes.end()) mesh[axis.name] = size->second;
  auto found = stretches(program, network, out.axes, mesh);
  if (!found) return found.error();
  out.order.push_back(out.axes);
  for (Stretch& s : *found) {
    if (s.sent.zero()) return input_error("nothing is sent, whatever the mesh");
    const Ratio ratio = reduced(s.flops, s.sent);
    OpenStretch one{std::move(s), Roofs{*peak, 0}, ratio.flops, ratio.bytes};
    one.roofs = Roofs{*peak, one.stretch.rate};
    add_thresholds(one, dims_cut(program, out.axes), sizes, out.order);
    out.stretches.push_back(std::move(one));
  }
  return Done{};
}

// Every way to give the open axes sizes with this product.
void every_size(const std::string& axes, std::int64_t chips, Bindings& sizes, std::vector<Bindings>& out) {
  if (axes.size() == 1) {
    sizes[axes] = chips;
    out.push_back(sizes);
    return;
  }
  for (std::int64_t size = 1; size <= chips; ++size) {
    if (chips % size != 0) continue;
    sizes[axes.substr(0, 1)] = size;
    every_size(axes.substr(1), chips / size, sizes, out);
  }
}

Result<MeshChoice> judged(const Program& program, const Machine& machine, Network network, const Bindings& sizes) {
  const auto found = explain(program, machine, sizes, {}, Thresholds::left_out);
  if (!found) return found.error();
  MeshChoice out;
  out.rings = network.rings;
  for (const MeshAxis& axis : program.mesh) out.mesh.axes.emplace_back(axis.name[0], found->dims.at(axis.name));
  network.mesh = out.mesh.axes;
  std::vector<Work> work = count(program, found->dims);
  route(work, network);
  Bindings all = found->dims;
  for (const auto& [name, part] : largest_parts(program, all)) all[name] = part;
  for (const Work& each : work) out.network_s += each.load.real({all.begin(), all.end()}) / network.used_rate();
  out.math_s = found->total.time_math_s.value_or(0);
  out.memory_s = found->total.time_memory_s.value_or(0);
  return out;
}

Status search(OpenMesh& out, const Program& program, const Machine& machine, const Network& network,
              const Bindings& given, std::int64_t chips) {
  if (chips < 2 || chips > most_chips)
    return usage_error(fmt::format("expected 2 to {} chips, found {}", most_chips, chips), "--chips 64");
  for (const std::string& dim : program.dim_names())
    if (!program.bind(given)->contains(dim))
      return usage_error(fmt::format("dimension {} has no value, and meshes are compared by their times", dim),
                         fmt::format("-d {}=4096", dim));
  Bindings sizes = given;
  std::vector<Bindings> all;
  every_size(out.axes, chips, sizes, all);
  for (const Bindings& each : all) {
    Mesh mesh;
    for (const char letter : out.axes) mesh.axes.emplace_back(letter, each.at(std::string(1, letter)));
    for (const auto& rings : rings_of(mesh, network)) {
      Network here = network;
      here.rings = rings;
      auto choice = judged(program, machine, here, each);
      if (!choice) return choice.error();
      out.choices.push_back(*std::move(choice));
    }
  }
  std::stable_sort(out.choices.begin(), out.choices.end(), [](const MeshChoice& a, const MeshChoice& b) {
    return std::pair(a.seconds(), a.network_s) < std::pair(b.seconds(), b.network_s);
  });
  return Done{};
}

}  // namespace

double MeshChoice::seconds() const { return std::max({math_s, memory_s, network_s}); }

Result<OpenMesh> open_mesh(const Program& program, const Machine& machine, const Bindings& given, std::int64_t chips) {
  auto sizes = program.bind(given);
  if (!sizes) return sizes.error();
  auto network = network_of(machine);
  if (!network) return network.error();
  OpenMesh out;
  out.program_text = program.text;
  out.machine = machine.name;
  out.order = program.dim_names();
  for (const MeshAxis& axis : program.mesh)
    if (!sizes->contains(axis.name)) out.axes += axis.name;
  if (program.mesh.empty())
    return usage_error("expected a program that is sharded",
                       "--chips 8 searches for the best sharding of one that is not");
  if (out.axes.empty()) return usage_error("its mesh has all its sizes", "`ridge explain` says what each device does");
  out.network = text(*network);
  const Status done = chips == 0 ? solve(out, program, machine, *network, *sizes)
                                 : search(out, program, machine, *network, given, chips);
  if (!done) return done.error();
  return out;
}

}  // namespace ridge
