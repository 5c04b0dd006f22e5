#include "ridge/distributed/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/distributed/collective.h"
#include "ridge/distributed/open_mesh.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

constexpr std::int64_t most_chips = 4096;
constexpr std::string_view example = "--mesh X=4,Y=2";

Result<Mesh> mesh_from(const std::string& text) {
  Mesh out;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const auto size = one.size() > 2 && one[1] == '=' ? whole_number(one.substr(2)) : std::nullopt;
    const bool letter = !one.empty() && one[0] >= 'A' && one[0] <= 'Z';
    if (!letter || !size || *size < 1 || *size > most_chips || out.size(one[0]) != 1)
      return usage_error(fmt::format("expected mesh axes, capital letters each with a size from 1 to {}, found '{}'",
                                     most_chips, text),
                         std::string(example));
    out.axes.emplace_back(one[0], *size);
    begin = end + 1;
  }
  if (out.axes.size() > 3) return usage_error("expected at most three mesh axes", std::string(example));
  if (out.devices() > most_chips)
    return usage_error(fmt::format("expected at most {} chips, found {}", most_chips, out.devices()),
                       std::string(example));
  return out;
}

// Meshes of one axis and of two; where every chip is as near as any other the longer axis first.
std::vector<Mesh> meshes_of(std::int64_t chips, bool order_matters) {
  std::vector<Mesh> out{{{{'X', chips}}}};
  for (std::int64_t x = chips / 2; x > 1; --x)
    if (chips % x == 0 && (order_matters || x * x >= chips)) out.push_back({{{'X', x}, {'Y', chips / x}}});
  return out;
}

std::string step_text(const Program& program, const StatementMove& step) {
  return fmt::format("{} of {} over {}", name(*step.move.kind),
                     program.tensors[static_cast<std::size_t>(step.tensor)].name, step.move.over);
}

const StatementMove* longest(const std::vector<StatementMove>& steps) {
  const auto most = std::max_element(steps.begin(), steps.end(), [](const StatementMove& a, const StatementMove& b) {
    return a.cost.seconds < b.cost.seconds;
  });
  return most == steps.end() ? nullptr : &*most;
}

std::string reason(const Program& program, const RankedSharding& first, const RankedSharding& other) {
  const double compute = other.sharding.compute_s - first.sharding.compute_s,
               network = other.sharding.network_s - first.sharding.network_s;
  const auto differs = [](double by, const char* what) {
    return fmt::format("{} {} {}", engineering(std::abs(by), "s"), by < 0 ? "less" : "more", what);
  };
  const double least = 1e-4 * first.sharding.seconds();
  std::string out;
  if (std::abs(compute) > least) out += differs(compute, "computing");
  if (std::abs(network) > least) out += (out.empty() ? "" : ", ") + differs(network, "sending");
  if (out.empty()) return "as fast";
  const StatementMove* const most = longest(other.steps);
  if (most != nullptr && network > least)
    out += fmt::format("; {} takes {}", step_text(program, *most), engineering(most->cost.seconds, "s"));
  return out;
}

std::optional<Error> unknown_size(const Program& program, const Bindings& sizes) {
  for (const std::string& dim : program.dim_names())
    if (!sizes.contains(dim))
      return usage_error(fmt::format("dimension {} has no value, and shardings are compared by their times", dim),
                         fmt::format("-d {}=4096", dim));
  return std::nullopt;
}

std::optional<Error> refused(const Program& program, const ShardOptions& options) {
  if (!program.mesh.empty())
    return usage_error("expected a program that is not sharded", "`ridge explain` counts one that is");
  if (options.mesh.empty() && (options.chips < 2 || options.chips > most_chips))
    return usage_error(fmt::format("expected 2 to {} chips, found {}", most_chips, options.chips), "--chips 8");
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes)
      if (axis.dim.size() == 1 && options.mesh.find(axis.dim + "=") != std::string::npos)
        return usage_error(fmt::format("'{}' is a dimension of the program and a mesh axis", axis.dim),
                           "give the mesh axis another letter");
  return std::nullopt;
}

// X and Y may be dimensions of the program: then the axes have other letters.
void rename(Mesh& mesh, const Program& program) {
  const std::vector<std::string> dims = program.dim_names();
  std::string free;
  for (const char letter : std::string("XYZPQRSTUVWABCDEFGHIJKLMNO"))
    if (std::find(dims.begin(), dims.end(), std::string(1, letter)) == dims.end()) free += letter;
  if (free.size() < mesh.axes.size() || free.starts_with("XY")) return;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) mesh.axes[i].first = free[i];
}

}  // namespace

double least_words(double m, double n, double k, double chips) {
  std::array<double, 3> d{m, n, k};
  std::sort(d.begin(), d.end(), std::greater<>());
  const double held = (d[0] * d[1] + d[0] * d[2] + d[1] * d[2]) / chips;
  double need = 0;
  if (chips <= d[0] / d[1])
    need = (d[0] * d[1] + d[0] * d[2]) / chips + d[1] * d[2];
  else if (chips <= d[0] * d[1] / (d[2] * d[2]))
    need = 2 * std::sqrt(d[0] * d[1] * d[2] * d[2] / chips) + d[0] * d[1] / chips;
  else
    need = 3 * std::pow(d[0] * d[1] * d[2] / chips, 2.0 / 3);
  return chips * std::max(0.0, need - held);
}

double least_words(const Program& program, const Bindings& sizes, std::int64_t chips) {
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
    out += batch * least_words(all(product->left_free), all(product->right_free), all(product->contracted),
                               static_cast<double>(chips) / batch);
  }
  return out;
}

Result<Mesh> mesh_named(const std::string& text) { return mesh_from(text); }

namespace {

// Whether it makes a difference which axis of a mesh has its chips side by side.
bool order_matters(const Network& network, std::int64_t chips) {
  return network.reach > 0 && chips > network.reach && !network.beyond.empty();
}

Result<std::vector<Mesh>> meshes_asked(const Program& program, const Network& network, const ShardOptions& options) {
  if (!options.mesh.empty()) {
    auto mesh = mesh_named(options.mesh);
    if (!mesh) return mesh.error();
    if (options.chips != 0 && options.chips != mesh->devices())
      return usage_error(fmt::format("{} has {} chips, --chips says {}", options.mesh, mesh->devices(), options.chips),
                         "leave one of the two out");
    return std::vector<Mesh>{*std::move(mesh)};
  }
  std::vector<Mesh> out = meshes_of(options.chips, order_matters(network, options.chips));
  for (Mesh& mesh : out) rename(mesh, program);
  return out;
}

// Searches one mesh after the other and keeps the best of all.
class Ranking {
 public:
  Ranking(ShardAnswer& out, const Machine& machine, std::size_t count) : out_(out), machine_(machine), count_(count) {}

  Status search(const Mesh& mesh, const Network& network) {
    const auto costs = Costs::of(out_.program, machine_, network, mesh, out_.sizes);
    if (!costs) return costs.error();
    ++out_.meshes;
    auto found = best_shardings(*costs, out_.capacity.value_or(0), count_, slowest_kept());
    if (!found) return found.error();
    if (found->empty() && out_.best.empty()) remember_unlimited(*costs);
    for (Sharding& s : *found) keep(*costs, mesh, network.rings, std::move(s));
    return Done{};
  }

  void finish() {
    auto& all = out_.best;
    std::stable_sort(all.begin(), all.end(), [](const RankedSharding& a, const RankedSharding& b) {
      const double least = 1e-9 * std::min(a.sharding.seconds(), b.sharding.seconds());
      if (std::abs(a.sharding.seconds() - b.sharding.seconds()) > least)
        return a.sharding.seconds() < b.sharding.seconds();
      return a.sharding.bytes < b.sharding.bytes;
    });
    // A mesh of two axes that only ever share out together is one of one axis.
    const auto same = [](const RankedSharding& a, const RankedSharding& b) {
      return a.sharding.seconds() == b.sharding.seconds() && a.sharding.words == b.sharding.words &&
             a.sharding.bytes == b.sharding.bytes;
    };
    all.erase(std::unique(all.begin(), all.end(), same), all.end());
    if (all.size() > count_) all.resize(count_);
    for (std::size_t i = 1; i < all.size(); ++i) all[i].reason = reason(out_.program, all[0], all[i]);
  }

 private:
  // What a sharding must not take longer than to be among the best of all meshes; none so far: 0.
  double slowest_kept() const {
    std::vector<double> times;
    for (const RankedSharding& r : out_.best) times.push_back(r.sharding.seconds());
    if (times.size() < count_) return 0;
    std::sort(times.begin(), times.end());
    return times[count_ - 1];
  }

  void remember_unlimited(const Costs& costs) {
    const auto any = best_shardings(costs, 0, 1);
    if (!any || any->empty() || (out_.unlimited_s && *out_.unlimited_s <= any->front().seconds())) return;
    out_.unlimited_s = any->front().seconds();
    out_.unlimited_bytes = any->front().bytes;
  }

  void keep(const Costs& costs, const Mesh& mesh, const std::map<char, std::int64_t>& rings, Sharding sharding) {
    RankedSharding ranked{mesh, rings, std::move(sharding), {}, {}, {}};
    ranked.written = written(costs, ranked.sharding).text;
    ranked.steps = steps_of(costs, ranked.sharding);
    out_.best.push_back(std::move(ranked));
  }

  ShardAnswer& out_;
  const Machine& machine_;
  std::size_t count_;
};

// Of a transfer the slower of the links and the library that was timed.
Sending slower(const Machine& machine, const Network& network, const Transfer& transfer) {
  const Sending links = sending_by_links(transfer, network);
  const auto library = library_sending(machine, transfer);
  if (!library || library->sending_s + library->wait_s < links.sending_s + links.wait_s) return links;
  return *library;
}

Status say_how_it_is_sent(ShardAnswer& out, const Machine& machine) {
  if (out.best.empty()) return Done{};
  const auto written = parse(out.best[0].written);
  if (!written) return written.error();
  const auto found = explain(*written, machine, {}, {}, Thresholds::left_out);
  if (!found) return found.error();
  if (!found->network) return Done{};
  Network network = *found->network;
  network.rings = out.best[0].rings;
  for (const Prediction& p : found->ops)
    for (const Transfer& t : p.work.transfers) add_small_messages(out.small, t, network);
  out.overlaps = overlaps(*written, *found, [&](const Transfer& t) { return slower(machine, network, t); });
  return Done{};
}

}  // namespace

Result<ShardAnswer> shard(const Program& program, const Machine& machine, const Bindings& given,
                          const ShardOptions& options) {
  if (auto wrong = refused(program, options)) return *std::move(wrong);
  auto sizes = program.bind(given);
  if (!sizes) return sizes.error();
  if (auto wrong = unknown_size(program, *sizes)) return *std::move(wrong);
  auto network = network_of(machine);
  if (!network) return network.error();
  const auto meshes = meshes_asked(program, *network, options);
  if (!meshes) return meshes.error();
  ShardAnswer out;
  out.program = program;
  out.sizes = *sizes;
  out.machine = machine.name;
  const bool timed = library_time(machine, {Collective::all_gather, "X", 2, Polynomial(1)}).has_value();
  out.network = fmt::format("{} x {}{}{}", network->links, network->link,
                            network->topology ? fmt::format(", {}", name(*network->topology)) : "",
                            timed ? "; collectives as a library was timed there" : "");
  out.chips = meshes->front().devices();
  out.meshes = 0;
  if (!machine.memory.empty() && machine.memory[0].capacity) out.capacity = machine.memory[0].capacity->value;
  out.bound_words = least_words(program, *sizes, out.chips);
  Ranking ranking(out, machine, options.best);
  for (const Mesh& mesh : *meshes)
    for (const auto& rings : rings_of(mesh, *network)) {
      Network here = *network;
      here.rings = rings;
      if (const Status searched = ranking.search(mesh, here); !searched) return searched.error();
    }
  ranking.finish();
  if (const Status said = say_how_it_is_sent(out, machine); !said) return said.error();
  return out;
}

}  // namespace ridge
