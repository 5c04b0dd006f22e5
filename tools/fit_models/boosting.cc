#include "fit_models/boosting.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

constexpr int trees = 240;
constexpr double rate = 0.1, ridge_penalty = 5, features_kept = 0.6, timings_kept = 0.7;
constexpr int least_in_leaf = 20;

struct Sum {
  double weighted = 0, weight = 0;
  int count = 0;
  double gain() const { return weighted * weighted / (weight + ridge_penalty); }
  Sum operator-(const Sum& x) const { return {weighted - x.weighted, weight - x.weight, count - x.count}; }
};
using Histogram = std::array<std::array<Sum, max_edges_per_feature + 1>, plan_feature_count>;

struct Cut {
  double gain = 0;
  int feature = 0, edge = 0;
};
Cut best_cut(const Histogram& h, const std::array<bool, plan_feature_count>& allowed) {
  Cut best{.gain = 1e-9};
  for (int f = 0; f < plan_feature_count; ++f) {
    if (!allowed[static_cast<std::size_t>(f)]) continue;
    const auto& bins = h[static_cast<std::size_t>(f)];
    Sum whole, left;
    for (const Sum& x : bins) {
      whole.weighted += x.weighted;
      whole.weight += x.weight;
      whole.count += x.count;
    }
    for (int e = 0; e < max_edges_per_feature; ++e) {
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
  std::int8_t* from = nullptr;  // the link of the parent node
  Cut cut;                      // its best split
};

// Splits the leaf with the largest gain until the tree has its maximum number of leaves.
RegressionTree grow(const Samples& samples, const std::vector<Learned>& all, const std::vector<double>& rest,
                    std::vector<std::size_t> some, const std::array<bool, plan_feature_count>& allowed) {
  const auto judged = [&](Leaf leaf) {
    auto h = std::make_unique<Histogram>();
    for (const std::size_t i : leaf.timings)
      for (std::size_t f = 0; f < plan_feature_count; ++f) {
        Sum& x = (*h)[f][all[i].bins[f]];
        x.weighted += samples.all[i].weight * rest[i];
        x.weight += samples.all[i].weight;
        ++x.count;
      }
    leaf.cut = best_cut(*h, allowed);
    return leaf;
  };
  RegressionTree tree{};
  std::vector<Leaf> leaves;
  leaves.push_back(judged({std::move(some), nullptr, {}}));
  for (std::size_t node = 0; node < tree.feature.size(); ++node) {
    const auto most = std::max_element(leaves.begin(), leaves.end(),
                                       [](const Leaf& x, const Leaf& y) { return x.cut.gain < y.cut.gain; });
    const Leaf cut = std::move(*most);
    leaves.erase(most);
    // Without a gain both children are leaves of the same value.
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
      x.weighted += samples.all[j].weight * rest[j];
      x.weight += samples.all[j].weight;
    }
    tree.leaf[i] = static_cast<std::int16_t>(std::lround(1e4 * rate * x.weighted / (x.weight + ridge_penalty)));
  }
  return tree;
}

}  // namespace

std::vector<Learned> learned(const Samples& samples, const Form& form) {
  std::vector<Learned> out;
  for (const Sample& x : samples.all) {
    Learned y{.form_s = predicted(x, form)};
    y.features =
        make_plan_features(*x.config, x.work, x.split, form.devices[static_cast<std::size_t>(x.device)], y.form_s);
    out.push_back(y);
  }
  return out;
}

void sort_into_bins(std::vector<Learned>& all, const std::array<BinEdges, plan_feature_count>& edges) {
  for (Learned& x : all) x.bins = find_bins(x.features, edges);
}

std::array<BinEdges, plan_feature_count> edges_of(const std::vector<Learned>& all) {
  std::array<BinEdges, plan_feature_count> edges;
  for (std::size_t f = 0; f < edges.size(); ++f) {
    std::vector<float> values;
    for (const Learned& x : all) values.push_back(x.features[f]);
    std::sort(values.begin(), values.end());
    std::vector<float> some;  // between adjacent values, the same number of samples in each bin
    std::vector<float> distinct = values;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    const bool few = distinct.size() <= max_edges_per_feature;
    for (std::size_t i = 1; few && i < distinct.size(); ++i) some.push_back((distinct[i - 1] + distinct[i]) / 2);
    for (std::size_t i = 1; !few && i <= max_edges_per_feature; ++i)
      some.push_back(values[i * (values.size() - 1) / (max_edges_per_feature + 1)]);
    edges[f].fill(std::numeric_limits<float>::max());
    std::copy(some.begin(), some.end(), edges[f].begin());
  }
  return edges;
}

std::vector<RegressionTree> boosted(const Samples& samples, const std::vector<Learned>& all, int left_out) {
  std::mt19937 random(1);  // NOLINT: a fixed seed gives the same trees
  const auto chance = [&](double p) { return static_cast<double>(random()) < p * 4294967296.0; };
  std::vector<double> rest;
  for (std::size_t i = 0; i < all.size(); ++i) rest.push_back(samples.all[i].log_measured - base::log(all[i].form_s));
  std::vector<RegressionTree> out;
  for (int i = 0; i < trees; ++i) {
    std::vector<std::size_t> some;
    for (std::size_t j = 0; j < all.size(); ++j)
      if (samples.all[j].fold != left_out && chance(timings_kept)) some.push_back(j);
    std::array<bool, plan_feature_count> allowed;
    for (bool& x : allowed) x = chance(features_kept);
    out.push_back(grow(samples, all, rest, some, allowed));
    for (std::size_t j = 0; j < all.size(); ++j) rest[j] -= evaluate_tree(out.back(), all[j].bins);
  }
  return out;
}

}  // namespace ridge::fit
