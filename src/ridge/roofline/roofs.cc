#include "ridge/roofline/roofs.h"

#include <fmt/format.h>

#include <cmath>

namespace ridge {
namespace {

// True if `a` takes at least as long as `b`. Times that differ by less than 1e-9 are compared exactly.
Result<bool> is_slower_or_equal(const Roof& a, const Roof& b, const RooflineContext& context) {
  if (std::abs(a.time_s - b.time_s) > 1e-9 * b.time_s) return a.time_s > b.time_s;
  return is_compute_bound(cancel_common_factor(a.count, b.count), context.dims, {a.rate, b.rate});
}

std::string parenthesize(const std::string& text, bool single) { return single ? text : fmt::format("({})", text); }

}  // namespace

Result<std::vector<Limiter>> rank_roofs(std::vector<Roof> roofs, const RooflineContext& context) {
  std::vector<Limiter> order;
  while (!roofs.empty()) {
    std::size_t top = 0;
    for (std::size_t i = 1; i < roofs.size(); ++i) {
      RIDGE_TRY(above, is_slower_or_equal(roofs[top], roofs[i], context));
      if (!above) top = i;
    }
    order.push_back(roofs[top].name);
    roofs.erase(roofs.begin() + static_cast<std::ptrdiff_t>(top));
  }
  return order;
}

Status set_limiters(Prediction& p, std::vector<Roof> roofs, const RooflineContext& context) {
  RIDGE_TRY(order, rank_roofs(std::move(roofs), context));
  for (const Limiter each : order) {
    if (!p.limiter)
      p.limiter = each;
    else if (!p.runner_up && each != *p.limiter)
      p.runner_up = each;
  }
  if (p.limiter == Limiter::overhead)
    for (Threshold& t : p.thresholds) t.decides_limiter = false;
  return Done{};
}

double launch_seconds(const Machine& machine) {
  const auto found = machine.numbers.find("launch_s");
  return found == machine.numbers.end() ? 0 : found->second.value;
}

Result<std::optional<Count>> evaluate_count(const Polynomial& count, const Bindings& dims) {
  if (!count.is_exact())
    return input_error(fmt::format("expected a count below 2^63, found {}", count.to_string()), "use smaller sizes");
  const auto value = count.evaluate_count(dims);
  if (value) return std::optional<Count>(*value);
  if (!count.has_all_values(dims)) return std::optional<Count>();
  return value.error();
}

std::string format_intensity(const Ratio& ratio, std::span<const std::string> order) {
  const std::string above = ratio.flops.to_string(order), below = ratio.bytes.to_string(order);
  if (ratio.flops.is_zero() || below == "1") return above;
  const bool one_symbol = below.find_first_of("*+/ ") == std::string::npos;
  return parenthesize(above, ratio.flops.terms().size() == 1) + "/" + parenthesize(below, one_symbol);
}

void add_thresholds(Prediction& p, const Polynomial& flops, double peak, const RooflineContext& context) {
  if (!context.thresholds) return;
  const Polynomial bytes = p.work.bytes(), &sent = p.work.link_load;
  const std::span<const std::string> excluded = p.work.flops_without_masks.is_zero()
                                                    ? std::span<const std::string>()
                                                    : std::span<const std::string>(context.tied_dims);
  const auto add = [&](const RoofPair& pair) {
    for (Threshold& t : find_thresholds(pair, context.dims, context.order, context.threshold_options, excluded)) {
      t.decides_limiter = !p.link_rate;
      p.thresholds.push_back(std::move(t));
    }
  };
  if (peak > 0) add({flops, bytes, {peak, context.bandwidth}});
  if (!p.link_rate) return;
  if (peak > 0) add({flops, sent, {peak, *p.link_rate}, {Limiter::compute, Limiter::network}});
  add({bytes, sent, {context.bandwidth, *p.link_rate}, {Limiter::memory, Limiter::network}});
}

}  // namespace ridge
