#include "ridge/distributed/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/distributed/collective.h"
#include "ridge/distributed/mesh_sizing.h"
#include "ridge/program/routine.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

constexpr std::int64_t max_sharded_chips = 4096;
constexpr std::string_view example = "--mesh X=4,Y=2";

Result<Mesh> parse_mesh_axes(const std::string& text) {
  Mesh out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string axis_text = text.substr(begin, end - begin);
    const auto axis_size =
        axis_text.size() > 2 && axis_text[1] == '=' ? parse_whole_number(axis_text.substr(2)) : std::nullopt;
    const bool letter = !axis_text.empty() && axis_text[0] >= 'A' && axis_text[0] <= 'Z';
    if (!letter || !axis_size || *axis_size < 1 || *axis_size > max_sharded_chips || out.size(axis_text[0]) != 1)
      return usage_error(fmt::format("expected mesh axes, capital letters each with a size from 1 to {}, found '{}'",
                                     max_sharded_chips, text),
                         std::string(example));
    out.axes.emplace_back(axis_text[0], *axis_size);
    begin = end + 1;
  }
  if (out.axes.size() > 3) return usage_error("expected at most three mesh axes", std::string(example));
  if (out.devices() > max_sharded_chips)
    return usage_error(fmt::format("expected at most {} chips, found {}", max_sharded_chips, out.devices()),
                       std::string(example));
  return out;
}

// Returns the meshes of one and of two axes. If all chips are equally distant, the longer axis is always first.
std::vector<Mesh> list_meshes(std::int64_t chips, bool order_matters) {
  std::vector<Mesh> out{{{{'X', chips}}}};
  for (std::int64_t x = chips / 2; x > 1; --x)
    if (chips % x == 0 && (order_matters || x * x >= chips)) out.push_back({{{'X', x}, {'Y', chips / x}}});
  return out;
}

std::string format_step(const Program& program, const StatementRedistribution& step) {
  return fmt::format("{} of {} over {}", name(*step.redistribution.collective), program.tensors[step.tensor].name,
                     step.redistribution.over);
}

const StatementRedistribution* slowest_step(const std::vector<StatementRedistribution>& steps) {
  const auto slowest = std::max_element(steps.begin(), steps.end(),
                                        [](const StatementRedistribution& a, const StatementRedistribution& b) {
                                          return a.cost.seconds < b.cost.seconds;
                                        });
  return slowest == steps.end() ? nullptr : &*slowest;
}

std::string explain_difference(const Program& program, const RankedSharding& first, const RankedSharding& other) {
  const double compute = other.sharding.compute_s - first.sharding.compute_s,
               network = other.sharding.network_s - first.sharding.network_s;
  const auto differs = [](double by, const char* what) {
    return fmt::format("{} {} {}", format_with_prefix(std::abs(by), "s"), by < 0 ? "less" : "more", what);
  };
  const double threshold_s = 1e-4 * first.sharding.total_seconds();
  std::string out;
  if (std::abs(compute) > threshold_s) out += differs(compute, "computing");
  if (std::abs(network) > threshold_s) out += (out.empty() ? "" : ", ") + differs(network, "sending");
  if (out.empty()) return "equally fast";
  const StatementRedistribution* const slowest = slowest_step(other.steps);
  if (slowest != nullptr && network > threshold_s)
    out += fmt::format("; {} takes {}", format_step(program, *slowest), format_with_prefix(slowest->cost.seconds, "s"));
  return out;
}

Status validate_sizes(const Program& program, const Bindings& sizes) {
  for (const std::string& dim : program.dim_names())
    if (!sizes.contains(dim))
      return usage_error(fmt::format("dimension {} has no value; comparing shardings needs all sizes", dim),
                         fmt::format("-d {}=4096", dim));
  return Done{};
}

Status validate_options(const Program& program, const ShardOptions& options) {
  if (!program.mesh.empty())
    return usage_error("expected a program that is not sharded", "`ridge explain` reads sharded programs");
  if (options.mesh.empty() && (options.chips < 2 || options.chips > max_sharded_chips))
    return usage_error(fmt::format("expected 2 to {} chips, found {}", max_sharded_chips, options.chips), "--chips 8");
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.dim.size() == 1 && options.mesh.find(axis.dim + "=") != std::string::npos)
        return usage_error(fmt::format("'{}' is a dimension of the program and a mesh axis", axis.dim),
                           "give the mesh axis another letter");
  return Done{};
}

// Renames the mesh axes X and Y if the program has dimensions of these names.
void rename_axes(Mesh& mesh, const Program& program) {
  const std::vector<std::string> dims = program.dim_names();
  std::string free;
  for (const char letter : std::string("XYZPQRSTUVWABCDEFGHIJKLMNO"))
    if (!contains(dims, std::string(1, letter))) free += letter;
  if (free.size() < mesh.axes.size() || free.starts_with("XY")) return;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) mesh.axes[i].first = free[i];
}

}  // namespace

double min_words_moved(double m, double n, double k, double chips) {
  std::array<double, 3> d{m, n, k};
  std::sort(d.begin(), d.end(), std::greater<>());
  const double initial_words = (d[0] * d[1] + d[0] * d[2] + d[1] * d[2]) / chips;
  double required_words = 0;
  if (chips <= d[0] / d[1])
    required_words = (d[0] * d[1] + d[0] * d[2]) / chips + d[1] * d[2];
  else if (chips <= d[0] * d[1] / (d[2] * d[2]))
    required_words = 2 * std::sqrt(d[0] * d[1] * d[2] * d[2] / chips) + d[0] * d[1] / chips;
  else
    required_words = 3 * std::pow(d[0] * d[1] * d[2] / chips, 2.0 / 3);
  return chips * std::max(0.0, required_words - initial_words);
}

double min_words_moved(const Program& program, const Bindings& sizes, std::int64_t chips) {
  double out = 0;
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (product == nullptr || product->contracted.empty()) continue;
    const auto all = [&](const std::vector<std::string>& dims) {
      double size = 1;
      for (const std::string& dim : dims)
        if (const auto found = sizes.find(dim); found != sizes.end()) size *= static_cast<double>(found->second);
      return size;
    };
    const double batch = std::min(all(product->batch), static_cast<double>(chips));
    out += batch * min_words_moved(all(product->left_free), all(product->right_free), all(product->contracted),
                                   static_cast<double>(chips) / batch);
  }
  return out;
}

Result<Mesh> parse_mesh(const std::string& text) { return parse_mesh_axes(text); }

namespace {

// True if the order of the mesh axes matters: the chips of the last axis may share a node.
bool order_matters(const Network& network, std::int64_t chips) {
  return network.first_link_chips > 0 && chips > network.first_link_chips && !network.outer_levels.empty();
}

Result<std::vector<Mesh>> requested_meshes(const Program& program, const Network& network,
                                           const ShardOptions& options) {
  if (!options.mesh.empty()) {
    RIDGE_TRY(mesh, parse_mesh(options.mesh));
    if (options.chips != 0 && options.chips != mesh.devices())
      return usage_error(fmt::format("{} has {} chips, --chips says {}", options.mesh, mesh.devices(), options.chips),
                         "leave one of the two out");
    return std::vector<Mesh>{std::move(mesh)};
  }
  std::vector<Mesh> out = list_meshes(options.chips, order_matters(network, options.chips));
  for (Mesh& mesh : out) rename_axes(mesh, program);
  return out;
}

// Lists the statements that every chip computes in full, and the dimensions along which `explain` splits the program.
void list_undivided(ShardingReport& out, const Program& program) {
  for (const Statement& statement : program.statements) {
    if (!routine_of(statement)) continue;
    out.undivided.push_back(statement.text);
    out.undivided_results.push_back(program.tensors[statement.result()].name);
  }
  for (const std::string& dim : program.dim_names())
    if (validate_split(program, {.dim = dim, .chips = out.chips})) out.explain_splits.push_back(dim);
}

// Returns the seconds of the statements that every chip computes in full.
double sum_undivided_seconds(const ShardingCosts& costs) {
  double out = 0;
  const std::vector<Statement>& statements = costs.program().statements;
  for (std::size_t s = 0; s < statements.size(); ++s)
    if (routine_of(statements[s])) out += costs.statement_costs(s).front().compute_s;
  return out;
}

// Searches meshes sequentially and keeps the best shardings of all.
class ShardingRanking {
 public:
  ShardingRanking(ShardingReport& out, const Machine& machine, std::size_t count)
      : out_(out), machine_(machine), count_(count) {}

  Status search_mesh(const Mesh& mesh, const Network& network) {
    RIDGE_TRY(costs, ShardingCosts::compute_costs(out_.program, machine_, network, mesh, out_.sizes));
    ++out_.meshes;
    out_.undivided_s = sum_undivided_seconds(costs);
    RIDGE_TRY(found, best_shardings(costs, out_.capacity.value_or(0), count_, slowest_kept()));
    if (found.empty() && out_.best.empty()) remember_unlimited(costs);
    for (Sharding& s : found) add_sharding(costs, mesh, place_mesh(mesh, network), std::move(s));
    return Done{};
  }

  void sort_and_trim() {
    auto& ranked = out_.best;
    std::stable_sort(ranked.begin(), ranked.end(), [](const RankedSharding& a, const RankedSharding& b) {
      const double tolerance_s = 1e-9 * std::min(a.sharding.total_seconds(), b.sharding.total_seconds());
      if (std::abs(a.sharding.total_seconds() - b.sharding.total_seconds()) > tolerance_s)
        return a.sharding.total_seconds() < b.sharding.total_seconds();
      return a.sharding.peak_bytes < b.sharding.peak_bytes;
    });
    // Removes duplicates: two mesh axes that always split together are the same sharding as one axis of their size.
    const auto is_same = [](const RankedSharding& a, const RankedSharding& b) {
      return a.sharding.total_seconds() == b.sharding.total_seconds() && a.sharding.words == b.sharding.words &&
             a.sharding.peak_bytes == b.sharding.peak_bytes;
    };
    ranked.erase(std::unique(ranked.begin(), ranked.end(), is_same), ranked.end());
    if (ranked.size() > count_) ranked.resize(count_);
    for (std::size_t i = 1; i < ranked.size(); ++i)
      ranked[i].slower_because = explain_difference(out_.program, ranked[0], ranked[i]);
  }

 private:
  // Returns the time in s that a further sharding must not exceed to be among the best; 0 if there are too few yet.
  double slowest_kept() const {
    std::vector<double> times;
    for (const RankedSharding& r : out_.best) times.push_back(r.sharding.total_seconds());
    if (times.size() < count_) return 0;
    std::sort(times.begin(), times.end());
    return times[count_ - 1];
  }

  void remember_unlimited(const ShardingCosts& costs) {
    const auto any = best_shardings(costs, 0, 1);
    if (!any || any->empty() || (out_.unlimited_memory_s && *out_.unlimited_memory_s <= any->front().total_seconds()))
      return;
    out_.unlimited_memory_s = any->front().total_seconds();
    out_.unlimited_peak_bytes = any->front().peak_bytes;
  }

  void add_sharding(const ShardingCosts& costs, const Mesh& mesh, MeshPlacement placement, Sharding sharding) {
    RankedSharding ranked{mesh, std::move(placement), std::move(sharding), {}, {}, {}};
    ranked.program_text = to_program(costs, ranked.sharding).text;
    ranked.steps = list_redistributions(costs, ranked.sharding);
    out_.best.push_back(std::move(ranked));
  }

  ShardingReport& out_;
  const Machine& machine_;
  std::size_t count_;
};

Status add_communication_details(ShardingReport& out, const Machine& machine) {
  if (out.best.empty()) return Done{};
  RIDGE_TRY(parsed, parse(out.best[0].program_text));
  RIDGE_TRY(found, explain(parsed, machine, {}, {}, Thresholds::skipped));
  if (!found.network) return Done{};
  Network network = *found.network;
  network.rings_per_axis = out.best[0].placement.rings;
  for (Prediction& p : found.ops)
    for (Transfer& t : p.work.transfers) {
      add_small_messages(out.small_messages, t, network);
      t.cost = estimate_cost(t, network);
    }
  out.overlaps = find_overlaps(parsed, found);
  return Done{};
}

}  // namespace

Result<ShardingReport> search_shardings(const Program& program, const Machine& machine, const Bindings& given,
                                        const ShardOptions& options) {
  RIDGE_TRY_STATUS(validate_options(program, options));
  RIDGE_TRY(sizes, program.bind_sizes(given));
  RIDGE_TRY_STATUS(validate_sizes(program, sizes));
  RIDGE_TRY(network, make_network(machine));
  RIDGE_TRY(meshes, requested_meshes(program, network, options));
  for (const Mesh& mesh : meshes) {
    Network whole = network;
    whole.mesh = mesh.axes;
    RIDGE_TRY_STATUS(check_reach({Collective::all_gather, mesh.axis_names(), mesh.devices(), Polynomial(1)}, whole));
  }
  ShardingReport out;
  out.program = program;
  out.sizes = sizes;
  out.machine = machine.name;
  out.network = fmt::format("{} x {}{}{}", network.links, network.link,
                            network.topology ? fmt::format(", {}", topology_name(*network.topology)) : "",
                            network.library ? "; collectives use fitted library times" : "");
  out.chips = meshes.front().devices();
  out.network += describe_outer_links(network, out.chips);
  out.meshes = 0;
  if (!machine.memory.empty() && machine.memory[0].capacity) out.capacity = machine.memory[0].capacity->value;
  out.min_words = min_words_moved(program, sizes, out.chips);
  list_undivided(out, program);
  ShardingRanking ranking(out, machine, options.max_results);
  for (const Mesh& mesh : meshes)
    for (const auto& rings : list_ring_assignments(mesh, network)) {
      Network ring_network = network;
      ring_network.rings_per_axis = rings;
      RIDGE_TRY_STATUS(ranking.search_mesh(mesh, ring_network));
    }
  ranking.sort_and_trim();
  RIDGE_TRY_STATUS(add_communication_details(out, machine));
  return out;
}

}  // namespace ridge
