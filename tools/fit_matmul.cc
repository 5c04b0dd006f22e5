// Grows the trees of data/models/product_trees.csv from timings, and says what they are worth:
//
//   ridge bench plans --on cuda --shapes data/matmul_fit_shapes.csv --seconds 400 > timings.csv
//   build/fit_matmul data/models/product_trees.csv timings.csv …
//
// Gradient boosting for squared error of the logarithm of measured over the closed form's time; plans near a product's
// fastest count most. Beside the trees it prints, for products left out of the growing (all of one n and k together),
// what choosing by the form alone and by form and trees loses against the fastest plan timed, and how far the time of
// the chosen plan is off.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ridge/measure/contest/plan_timings.h"
#include "ridge/ops/product/correction.h"

namespace ridge {
namespace {

using namespace ops;
using namespace ops::cuda;

constexpr int trees = 560, folds = 5;
constexpr double rate = 0.06, ridge_penalty = 5, features_kept = 0.6, timings_kept = 0.7;
constexpr int least_in_leaf = 20;

struct Timing {
  int product = 0, fold = 0;
  Features features{};
  Bins bins{};
  double form = 0, measured = 0, weight = 0;
};

void add(const TimedProduct& product, const DeviceNumbers& device, std::vector<Timing>& all, int& products) {
  const MatmulCall call = timed_call(product.shape);
  const std::size_t before = all.size();
  double fastest = std::numeric_limits<double>::infinity();
  for (const TimedPlan& t : product.plans) {
    const auto x = t.config < 0 ? std::nullopt : timed_work(call, device, t);
    if (!x) continue;
    const SplitK split{x->plan.splits, x->plan.split_mode};
    Timing y{.product = products, .form = x->plan.predicted_s, .measured = t.seconds};
    y.features = features_of(sm90_menu[static_cast<std::size_t>(t.config)], x->work, split, device, y.form);
    y.fold = static_cast<int>(static_cast<std::size_t>(product.shape.n * 7919 + product.shape.k * 104729) / 64 % folds);
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

bool read(const char* path, std::vector<Timing>& all, int& products) {
  const auto timings = read_timings(path);
  const auto device = timings ? numbers_of(timings->device) : timings.error();
  if (!device) {
    fmt::print(stderr, "{}", device.error().text());
    return false;
  }
  for (const TimedProduct& product : timings->products) add(product, *device, all, products);
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

void write(const char* path, const std::vector<Tree>& grown, const std::array<Edges, plan_features>& edges,
           const std::string& about) {
  std::ofstream to(path);
  to << "# Regression trees over what a plan looks like (src/ridge/ops/product/correction.h): a factor on the closed "
        "form's time.\n# A tree's nodes are feature:edge:left:right, its leaves what is added to the time's "
        "logarithm, in 0.0001.\n"
     << about << fmt::format("# menu: {:016x}\nwhat,nodes,leaves\n", menu_fingerprint());
  for (std::size_t f = 0; f < edges.size(); ++f) {
    std::vector<float> real;
    std::copy_if(edges[f].begin(), edges[f].end(), std::back_inserter(real), [](float x) { return x < 1e30F; });
    to << fmt::format("edges,{},{:.7g}\n", feature_names[f], fmt::join(real, " "));
  }
  for (const Tree& t : grown) {
    std::vector<std::string> nodes;
    for (std::size_t i = 0; i < t.feature.size(); ++i)
      nodes.push_back(fmt::format("{}:{}:{}:{}", t.feature[i], t.edge[i], t.left[i], t.right[i]));
    to << fmt::format("tree,{},{}\n", fmt::join(nodes, " "), fmt::join(t.leaf, " "));
  }
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
  const std::string about = fmt::format("{} timings of {} products", all.size(), products);
  fmt::print(
      "{}. On products left out, choosing by the form loses {:.2f} %, by form and trees {:.2f} %; its time is off "
      "by {:.1f} %.\n",
      about, 100 * loss.form / n, 100 * loss.both / n, 100 * loss.off / n);
  write(names[1], boosted(all, -1), edges, fmt::format("# tool: tools/fit_matmul.cc\n# timings: {}\n", about));
  return 0;
}

}  // namespace
}  // namespace ridge

int main(int count, char** names) {
  if (count < 3) {
    std::fputs("usage: fit_matmul TREES.csv TIMINGS.csv...\n", stderr);
    return 2;
  }
  return ridge::fit(count, names);
}
