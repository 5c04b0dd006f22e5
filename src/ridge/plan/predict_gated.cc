#include "ridge/plan/predict_gated.h"

#include <algorithm>
#include <set>

#include "ridge/ops/gated/config.h"
#include "ridge/ops/product/trace.h"
#include "ridge/plan/h200.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

const ops::MatmulConfig& config(const cuda::GatedPlan& plan) {
  return ops::sm90_gated_menu[static_cast<std::size_t>(plan.row)];
}
std::int64_t waves(const cuda::GatedPlan& plan) {
  return (plan.tiles * plan.pieces + h200::multiprocessors - 1) / h200::multiprocessors;
}
TilePlan described(const cuda::GatedPlan& plan) {
  if (plan.path == cuda::GatedPlan::Path::nothing) return {.kernel = "nothing"};
  if (plan.path == cuda::GatedPlan::Path::plain) return {.kernel = "sm90_gated_plain"};
  const ops::MatmulConfig& c = config(plan);
  return {gated_name(plan.row),
          c.m,
          c.n,
          c.k,
          c.stages,
          plan.pieces,
          waves(plan),
          plan.pieces > 1 ? k_cut(tile::Cuts::pieces) : KCut{}};
}

// The best of each row but the winner's; of rows that differ in their stages alone, one.
std::vector<Loser> losers(const cuda::GatedCall& call, const cuda::GatedPlan& best) {
  const double sums = 2.0 * static_cast<double>(call.m) * static_cast<double>(call.n);
  const auto tiled = [&](const cuda::GatedPlan& plan) {
    return Tiled{config(plan), sums, plan.tiles, waves(plan), plan.pieces};
  };
  std::vector<Loser> out;
  for (int row = 0; row < static_cast<int>(ops::sm90_gated_menu.size()); ++row) {
    std::optional<cuda::GatedPlan> soonest;
    for (const int pieces : {1, 2, 3, 4, 6, 8}) {
      const auto plan = cuda::planned(call, h200::workspace_bytes, h200::multiprocessors, row, pieces);
      if (plan && (!soonest || plan->predicted_s < soonest->predicted_s)) soonest = plan;
    }
    if (soonest && row != best.row)
      out.push_back({described(*soonest), soonest->predicted_s, why_slower(tiled(best), tiled(*soonest))});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Loser& a, const Loser& b) { return a.predicted_s < b.predicted_s; });
  std::set<std::string> told{gated_name(best.row)};
  std::erase_if(out, [&](const Loser& loser) { return !told.insert(loser.plan.kernel).second; });
  out.resize(std::min(out.size(), h200::most_losers));
  return out;
}

// The two halves are one product that is twice as wide, of which half is stored.
void add_traffic(OpPlan& op, const cuda::GatedCall& call, const cuda::GatedPlan& plan) {
  const ops::MatmulProblem wide{.batch = 1,
                                .m = call.m,
                                .n = 2 * call.n,
                                .k = call.k,
                                .a = {call.dtype, call.x_line, 1, 0},
                                .b = {call.dtype, 1, call.k, 0},
                                .d = {call.out, 2 * call.n, 1, 0}};
  ops::TileOrder order{.m = 32, .n = 64, .k = 32, .cache_bytes = 0};
  if (plan.path == cuda::GatedPlan::Path::tiles) {
    order = {.m = config(plan).m, .n = config(plan).n, .k = config(plan).k};
    order.pieces = plan.pieces, order.band = plan.band, order.blocks = plan.blocks;
  }
  const std::int64_t each = bits(call.dtype) / 8;
  const std::int64_t copied =
      2 * each * call.k * ((plan.copy_x ? call.m : 0) + (plan.copy_up + plan.copy_gate) * call.n);
  const std::int64_t biases = ((call.bu != nullptr) + (call.bg != nullptr)) * call.n * bits(call.bias) / 8;
  const std::int64_t tile_rows = (call.m + order.m - 1) / order.m;
  const ops::MatmulTraffic asked = ops::trace_tiles(wide, order);
  op.traffic_bytes = copied + asked.global_bytes() - asked.d.global_bytes / 2 + biases * tile_rows;
  order.cache_bytes = h200::cache_bytes;
  const ops::MatmulTraffic behind = ops::trace_tiles(wide, order);
  op.memory_bytes = copied + behind.a.memory_bytes + behind.b.memory_bytes + behind.d.memory_bytes / 2 +
                    behind.partial_bytes + biases;
}

}  // namespace

OpPlan predict_gated(const cuda::GatedCall& call) {
  const cuda::GatedPlan plan = cuda::choose(call, h200::workspace_bytes, h200::multiprocessors);
  OpPlan op{.plan = described(plan)};
  if (plan.path == cuda::GatedPlan::Path::nothing) return op;
  double seconds = plan.predicted_s;
  const double flop = 4.0 * static_cast<double>(call.m) * static_cast<double>(call.n) * static_cast<double>(call.k);
  if (plan.path == cuda::GatedPlan::Path::plain) seconds = h200::launch_s + flop / h200::plain_flop_per_s;
  op.predicted_s = {seconds, seconds, seconds};
  add_traffic(op, call, plan);
  if (plan.path == cuda::GatedPlan::Path::tiles) op.losers = losers(call, plan);
  return op;
}

}  // namespace ridge
