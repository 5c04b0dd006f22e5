#include "ridge/ops/product/time/correction.h"

#include <algorithm>
#include <cmath>

#include "ridge/base/portable_math.h"

namespace ridge::ops::cuda {
namespace {

double ceil_quotient(double x, double by) { return std::ceil(x / by); }
double number(auto x) { return static_cast<double>(x); }

// Counts of a plan that several features contain.
struct TileCounts {
  double clusters_m, clusters_n, tiles, stages, waves, requested_bytes;
};

TileCounts count_tiles(const MatmulConfig& c, const TileWork& w, const SplitK& s, const DeviceNumbers& device) {
  TileCounts x;
  x.clusters_m = ceil_quotient(static_cast<double>(w.size.m), c.m * c.cluster_m);
  x.clusters_n = ceil_quotient(static_cast<double>(w.size.n), c.n * c.cluster_n);
  x.tiles = static_cast<double>(w.batch) * x.clusters_m * x.clusters_n * c.cluster();
  x.stages = ceil_quotient(static_cast<double>(w.size.k), c.k);
  const int cluster_blocks = s.split_mode == tile::SplitMode::cluster_split_k ? s.splits : c.cluster();
  x.waves = x.tiles * s.splits / (cluster_blocks * count_concurrent_clusters(cluster_blocks, device.multiprocessors));
  x.requested_bytes =
      x.tiles * x.stages * (1.0 * c.m / c.cluster_n + 1.0 * c.n / c.cluster_m) * c.k * w.operand_bytes();
  return x;
}

PlanFeatures to_floats(const std::array<double, plan_feature_count>& all) {
  PlanFeatures out;
  std::transform(all.begin(), all.end(), out.begin(), [](double x) { return static_cast<float>(x); });
  return out;
}

}  // namespace

PlanFeatures make_plan_features(const MatmulConfig& c, const TileWork& w, const SplitK& s, const DeviceNumbers& device,
                                double form_s) {
  const double m = number(w.size.m), n = number(w.size.n), k = number(w.size.k), batch = number(w.batch);
  const TileCounts x = count_tiles(c, w, s, device);
  return to_floats({
      base::log(form_s),
      std::min(x.waves, 20.0),
      x.waves - std::floor(x.waves),
      std::min(std::ceil(x.waves), 20.0),
      base::log(x.stages / s.splits),
      base::log(x.stages),
      base::log(x.tiles),
      number(c.m),
      number(c.n),
      number(c.k),
      number(c.consumers),
      number(c.roles == tile::Roles::pingpong),
      number(c.a == tile::Major::mn) + 2 * number(c.b == tile::Major::mn),
      number(c.swap),
      number(c.cluster_m),
      number(c.cluster_n),
      number(c.k * c.stages),
      number(s.splits),
      number(static_cast<int>(s.split_mode)),
      number(w.alignment_a),
      number(w.alignment_b),
      number(w.narrow_a) + 2 * number(w.narrow_b),
      number(w.copies),
      number(w.prefetch_constants),
      x.tiles * c.m * c.n / (batch * m * n),  // Computed over requested results
      base::log(m),
      base::log(n),
      base::log(k),
      base::log(batch * m * n * k / w.minimum_bytes),
      base::log(w.minimum_bytes),
      std::min(x.clusters_m, 40.0),
      std::min(x.clusters_n, 40.0),
      base::log(x.requested_bytes / w.minimum_bytes),
  });
}

FeatureBins find_bins(const PlanFeatures& features, const std::array<BinEdges, plan_feature_count>& edges) {
  FeatureBins bins;
  for (std::size_t f = 0; f < bins.size(); ++f)
    bins[f] =
        static_cast<std::uint8_t>(std::lower_bound(edges[f].begin(), edges[f].end(), features[f]) - edges[f].begin());
  return bins;
}

double evaluate_tree(const RegressionTree& tree, const FeatureBins& bins) {
  int at = 0;
  while (at >= 0) {
    const std::size_t i = at;
    at = bins[tree.feature[i]] > tree.edge[i] ? tree.right[i] : tree.left[i];
  }
  return tree.leaf[-1 - at] * 1e-4;
}

double correction_factor(std::span<const RegressionTree> trees, const FeatureBins& bins) {
  double sum = 0;
  for (const RegressionTree& tree : trees) sum += evaluate_tree(tree, bins);
  return std::clamp(base::exp(sum), min_correction, max_correction);
}

double predict_correction(const PlanFeatures& features, const ProductModel& model) {
  return correction_factor(model.trees, find_bins(features, model.edges));
}

}  // namespace ridge::ops::cuda
