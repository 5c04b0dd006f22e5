#include "ridge/plan/soonest.h"

#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/model.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"
#include "ridge/ops/routing/model.h"
#include "ridge/ops/rows/model.h"

namespace ridge {
namespace {

std::vector<int> products_in(const Program& program, const Group& group) {
  std::vector<int> out;
  for (const int s : group.statements)
    if (std::holds_alternative<Contraction>(program.statements[static_cast<std::size_t>(s)].op)) out.push_back(s);
  return out;
}

}  // namespace

std::optional<double> forecast_s(const Plan& plan, const ops::DeviceNumbers& device) {
  double seconds = 0;
  for (const Step& step : plan.steps) {
    const auto kernel = std::visit([&](const auto& problem) { return forecast(problem, device); }, step.kernel);
    if (!kernel) return std::nullopt;
    seconds += kernel->spread.middle * kernel->seconds;
  }
  return seconds;
}

Result<Plan> soonest_plan(const Program& program, const Bindings& dims, const FuseOptions& options,
                          const ops::DeviceNumbers& device) {
  auto best = plan(program, dims, options);
  if (!best || !options.fuse) return best;
  auto least = forecast_s(*best, device);
  FuseOptions how = options;
  const std::vector<Group> groups = best->fusion.groups;
  for (const Group& group : groups) {
    const std::vector<int> products = products_in(program, group);
    if (!least || group.kind != Group::Kind::product || products.size() != 2) continue;
    FuseOptions tried = how;
    tried.apart.insert(tried.apart.end(), products.begin(), products.end());
    auto other = plan(program, dims, tried);
    const auto seconds = other ? forecast_s(*other, device) : std::nullopt;
    if (!seconds || *seconds >= *least) continue;
    least = seconds;
    how = tried;
    best = std::move(other);
  }
  return best;
}

}  // namespace ridge
