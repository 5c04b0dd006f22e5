// Grows the trees of ops/product/trees.h from timings, and says what they are worth:
//
//   ridge bench matmul --against cublaslt --shapes data/matmul_fit_shapes.csv --rounds 1 --tune 60 --json > t.json
//   build/fit_matmul src/ridge/ops/product/trees.h t.json …
//
// (the first on the device, some twelve minutes).
// Gradient boosting for squared error of the logarithm of measured over the closed form's time; plans near a product's
// fastest count most. Beside the trees it prints, for products left out of the growing (all of one n and k together),
// what choosing by the form alone and by form and trees loses against the fastest plan timed, and how far the time of
// the chosen plan is off.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "ridge/measure/contest/contest_shape.h"
#include "ridge/ops/product/correction.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

using namespace ops;
using namespace ops::cuda;

constexpr int sms = 132, trees = 560, folds = 5;
constexpr double rate = 0.06, ridge_penalty = 5, features_kept = 0.6, timings_kept = 0.7;
constexpr int least_in_leaf = 20;

struct Timing {
  int product = 0, fold = 0;
  Features features{};
  Bins bins{};
  double form = 0, measured = 0, weight = 0;
};

tile::SplitMode split_mode_of(const std::string& name) {
  using tile::SplitMode;
  if (name == "cluster_split_k") return SplitMode::cluster_split_k;
  if (name == "stream_k") return SplitMode::stream_k;
  if (name == "cooperative_split_k") return SplitMode::cooperative_split_k;
  return SplitMode::split_k;
}

std::optional<PlannedWork> work_of(const MatmulCall& call, const nlohmann::json& timed, int config) {
  const tile::SplitMode split_mode = split_mode_of(timed["split_mode"]);
  const SplitK split{split_mode == tile::SplitMode::stream_k ? 1 : timed["split"].get<int>(), split_mode};
  for (const Copies copies : cuda::copies(call)) {
    auto x = planned_work(call, std::size_t{64} << 20, sms, config, split, copies);
    if (x && x->plan.copy_a + x->plan.copy_b == timed["copies"].get<int>()) return x;
  }
  return std::nullopt;
}

bool read(const char* path, std::vector<Timing>& all, int& products) {
  const auto file = nlohmann::json::parse(std::ifstream(path), nullptr, false);
  if (!file.contains("rows")) {
    fmt::print(stderr, "{}: expected what `ridge bench matmul --tune N --json` prints\n", path);
    return false;
  }
  std::map<std::string, int> rows;
  for (int config = 0; config < static_cast<int>(sm90_menu.size()); ++config) rows[menu_name(config)] = config;
  for (const auto& r : file["rows"]) {
    ContestShape shape{.op = r["op"], .dtype = DType::bf16, .out = DType::bf16, .m = r["m"], .n = r["n"], .k = r["k"]};
    MatmulCall call{};
    call.problem = shape.problem();
    call.constant_b = shape.op != "tn";                // as the bench has it
    std::uintptr_t address = std::uintptr_t{1} << 32;  // plans look at addresses only
    for (const void** x : {&call.a, &call.b}) *x = reinterpret_cast<const void*>(address += std::uintptr_t{1} << 32);
    call.d = reinterpret_cast<void*>(address + (std::uintptr_t{1} << 32));
    const std::size_t before = all.size();
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& t : r["tuned"]) {
      const auto config = rows.find(t["kernel"]);
      if (config == rows.end()) continue;
      const auto x = work_of(call, t, config->second);
      if (!x) continue;
      const SplitK split{x->plan.splits, x->plan.split_mode};
      Timing y{.product = products, .form = x->plan.predicted_s, .measured = t["measured_s"]};
      y.features = features_of(sm90_menu[static_cast<std::size_t>(config->second)], x->work, split, sms, y.form);
      y.fold = static_cast<int>(static_cast<std::size_t>(shape.n * 7919 + shape.k * 104729) / 64 % folds);
      fastest = std::min(fastest, y.measured);
      all.push_back(y);
    }
    for (std::size_t i = before; i < all.size(); ++i) {
      const double slower = all[i].measured / fastest;
      all[i].weight = 0.1;
      if (slower < 1.5) all[i].weight = 0.4;
      if (slower < 1.2) all[i].weight = 1;
    }
    if (all.size() > before) ++products;
  }
  return true;
}

std::array<Edges, plan_features> edges_of(const std::vector<Timing>& all) {
  std::array<Edges, plan_features> edges;
  for (std::size_t f = 0; f < edges.size(); ++f) {
    std::vector<float> values;
    for (const Timing& t : all) values.push_back(t.features[f]);
    std::sort(values.begin(), values.end());
    std::vector<float> some;  // between neighbours, as many of them each
    std::vector<float> distinct = values;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const bool few = distinct.size() <= feature_edges;
    for (std::size_t i = 1; few && i < distinct.size(); ++i) some.push_back((distinct[i - 1] + distinct[i]) / 2);
    for (std::size_t i = 1; !few && i <= feature_edges; ++i)
      some.push_back(values[i * (values.size() - 1) / (feature_edges + 1)]);
    edges[f].fill(std::numeric_limits<float>::max());
    std::copy(some.begin(), some.end(), edges[f].begin());
  }
  return edges;
}

struct Sum {
  double weighted = 0, weight = 0;
  int count = 0;
  double gain() const { return weighted * weighted / (weight + ridge_penalty); }
  Sum operator-(const Sum& x) const { return {weighted - x.weighted, weight - x.weight, count - x.count}; }
};
using Histogram = std::array<std::array<Sum, feature_edges + 1>, plan_features>;

struct Cut {
  double gain = 0;
  int feature = 0, edge = 0;
};
Cut best_cut(const Histogram& h, const std::array<bool, plan_features>& allowed) {
  Cut best{.gain = 1e-9};
  for (int f = 0; f < plan_features; ++f) {
    if (!allowed[static_cast<std::size_t>(f)]) continue;
    const auto& bins = h[static_cast<std::size_t>(f)];
    Sum whole, left;
    for (const Sum& x : bins) {
      whole.weighted += x.weighted;
      whole.weight += x.weight;
      whole.count += x.count;
    }
    for (int e = 0; e < feature_edges; ++e) {
      const Sum& x = bins[static_cast<std::size_t>(e)];
      left.weighted += x.weighted;
      left.weight += x.weight;
      left.count += x.count;
      const Sum right = whole - left;
      if (left.count < least_in_leaf || right.count < least_in_leaf) continue;
      const double gain = left.gain() + right.gain() - whole.gain();
      if (gain > best.gain) best = {gain, f, e};
    }
  }
  return best.gain > 1e-9 ? best : Cut{};
}

struct Leaf {
  std::vector<std::size_t> timings;
  std::int8_t* from = nullptr;  // the link that leads here
  Cut cut;                      // the best one of it
};

// The leaf that gains most is cut in two until there are as many as a tree holds.
Tree grow(const std::vector<Timing>& all, const std::vector<double>& rest, std::vector<std::size_t> some,
          const std::array<bool, plan_features>& allowed) {
  const auto judged = [&](Leaf leaf) {
    auto h = std::make_unique<Histogram>();
    for (const std::size_t i : leaf.timings)
      for (std::size_t f = 0; f < plan_features; ++f) {
        Sum& x = (*h)[f][all[i].bins[f]];
        x.weighted += all[i].weight * rest[i];
        x.weight += all[i].weight;
        ++x.count;
      }
    leaf.cut = best_cut(*h, allowed);
    return leaf;
  };
  Tree tree{};
  std::vector<Leaf> leaves;
  leaves.push_back(judged({std::move(some), nullptr, {}}));
  for (std::size_t node = 0; node < tree.feature.size(); ++node) {
    const auto most = std::max_element(leaves.begin(), leaves.end(),
                                       [](const Leaf& x, const Leaf& y) { return x.cut.gain < y.cut.gain; });
    const Leaf cut = std::move(*most);
    leaves.erase(most);
    // Where nothing gains, both ways lead to leaves of the same value.
    tree.feature[node] = static_cast<std::uint8_t>(cut.cut.feature);
    tree.edge[node] = static_cast<std::uint8_t>(cut.cut.edge);
    if (cut.from) *cut.from = static_cast<std::int8_t>(node);
    Leaf left{{}, &tree.left[node], {}}, right{{}, &tree.right[node], {}};
    for (const std::size_t i : cut.timings)
      (all[i].bins[tree.feature[node]] > tree.edge[node] ? right : left).timings.push_back(i);
    leaves.push_back(judged(std::move(left)));
    leaves.push_back(judged(std::move(right)));
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    *leaves[i].from = static_cast<std::int8_t>(-1 - static_cast<int>(i));
    Sum x;
    for (const std::size_t j : leaves[i].timings) {
      x.weighted += all[j].weight * rest[j];
      x.weight += all[j].weight;
    }
    tree.leaf[i] = static_cast<std::int16_t>(std::lround(1e4 * rate * x.weighted / (x.weight + ridge_penalty)));
  }
  return tree;
}

// From all timings but those of one fold (-1: from all).
std::vector<Tree> boosted(const std::vector<Timing>& all, int left_out) {
  std::mt19937 random(1);  // NOLINT: the same trees every time
  const auto chance = [&](double p) { return static_cast<double>(random()) < p * 4294967296.0; };
  std::vector<double> rest;
  for (const Timing& t : all) rest.push_back(std::log(t.measured / t.form));
  std::vector<Tree> out;
  for (int i = 0; i < trees; ++i) {
    std::vector<std::size_t> some;
    for (std::size_t j = 0; j < all.size(); ++j)
      if (all[j].fold != left_out && chance(timings_kept)) some.push_back(j);
    std::array<bool, plan_features> allowed;
    for (bool& x : allowed) x = chance(features_kept);
    out.push_back(grow(all, rest, some, allowed));
    for (std::size_t j = 0; j < all.size(); ++j) rest[j] -= sum_of(out.back(), all[j].bins);
  }
  return out;
}

struct Loss {
  double form = 0, both = 0, off = 0;
  int products = 0;
};
void judge(const std::vector<Timing>& all, int fold, const std::vector<Tree>& grown, Loss& loss) {
  for (std::size_t i = 0, end = 0; i < all.size(); i = end) {
    while (end < all.size() && all[end].product == all[i].product) ++end;
    if (all[i].fold != fold) continue;
    std::size_t by_form = i, by_both = i, fastest = i;
    double soonest = std::numeric_limits<double>::infinity();
    for (std::size_t j = i; j < end; ++j) {
      if (all[j].measured < all[fastest].measured) fastest = j;
      if (all[j].form < all[by_form].form) by_form = j;
      const double both = all[j].form * factor_of(grown, all[j].bins);
      if (both < soonest) {
        soonest = both;
        by_both = j;
      }
    }
    loss.form += std::log(all[by_form].measured / all[fastest].measured);
    loss.both += std::log(all[by_both].measured / all[fastest].measured);
    loss.off += std::abs(soonest / all[by_both].measured - 1);
    ++loss.products;
  }
}

std::string text(float x) { return fmt::format("{:#.7g}F", x); }
std::string text(int x) { return fmt::format("{}", x); }
template <class Numbers> std::string list(const Numbers& numbers) {
  std::string out;
  for (const auto x : numbers) out += (out.empty() ? "" : ", ") + text(x);
  return "{" + out + "}";
}

void write(const char* path, const std::vector<Tree>& grown, const std::array<Edges, plan_features>& edges,
           const std::string& about) {
  std::ofstream to(path);
  to << "// Made by tools/fit_matmul.cc; not to be edited. " << about << "\n#pragma once\n\n"
     << "#include \"ridge/ops/product/correction.h\"\n\nnamespace ridge::ops::cuda {\n// clang-format off\n"
     << "inline constexpr std::array<Edges, plan_features> matmul_edges{{\n";
  for (const Edges& e : edges) {
    std::vector<float> real;
    std::copy_if(e.begin(), e.end(), std::back_inserter(real), [](float x) { return x < 1e30F; });
    real.resize(e.size(), 3e38F);
    to << "{" << list(real) << "},\n";
  }
  to << "}};\ninline constexpr std::array<Tree, " << grown.size() << "> matmul_trees{{\n";
  for (std::size_t i = 0; i < grown.size(); ++i) {  // two a line
    const Tree& t = grown[i];
    to << "{" << list(t.feature) << ", " << list(t.edge) << ", " << list(t.left) << ", " << list(t.right) << ", "
       << list(t.leaf) << (i % 2 == 0 && i + 1 < grown.size() ? "}, " : "},\n");
  }
  to << "}};\n// clang-format on\n}  // namespace ridge::ops::cuda\n";
}

int fit(int count, char** names) {
  std::vector<Timing> all;
  int products = 0;
  for (int i = 2; i < count; ++i)
    if (!read(names[i], all, products)) return 3;
  const auto edges = edges_of(all);
  for (Timing& t : all) t.bins = bins_of(t.features, edges);
  Loss loss;
  for (int fold = 0; fold < folds; ++fold) judge(all, fold, boosted(all, fold), loss);
  const double n = loss.products;
  const std::string about = fmt::format("{} timings of {} products.", all.size(), products);
  fmt::print(
      "{} On products left out, choosing by the form loses {:.2f} %, by form and trees {:.2f} %; its time is off "
      "by {:.1f} %.\n",
      about, 100 * loss.form / n, 100 * loss.both / n, 100 * loss.off / n);
  write(names[1], boosted(all, -1), edges, about);
  return 0;
}

}  // namespace
}  // namespace ridge

int main(int count, char** names) {
  if (count < 3) {
    std::fputs("usage: fit_matmul TREES.h TIMINGS.json...\n", stderr);
    return 2;
  }
  return ridge::fit(count, names);
}
