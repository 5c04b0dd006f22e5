#include "ridge/roofline/roofs.h"

#include <fmt/format.h>

#include <cmath>

namespace ridge {
namespace {

// Does the first take at least as long? Where the times are too near to tell, whole numbers decide.
Result<bool> takes_as_long(const Roof& a, const Roof& b, const Setting& setting) {
  if (std::abs(a.time - b.time) > 1e-9 * b.time) return a.time > b.time;
  return compute_bound(reduced(a.count, b.count), setting.dims, {a.rate, b.rate});
}

std::string in_brackets(const std::string& text, bool single) { return single ? text : fmt::format("({})", text); }

}  // namespace

Result<std::vector<Limiter>> ranked(std::vector<Roof> roofs, const Setting& setting) {
  std::vector<Limiter> order;
  while (!roofs.empty()) {
    std::size_t top = 0;
    for (std::size_t i = 1; i < roofs.size(); ++i) {
      const auto above = takes_as_long(roofs[top], roofs[i], setting);
      if (!above) return above.error();
      if (!*above) top = i;
    }
    order.push_back(roofs[top].name);
    roofs.erase(roofs.begin() + static_cast<std::ptrdiff_t>(top));
  }
  return order;
}

Status limited(Prediction& p, std::vector<Roof> roofs, const Setting& setting) {
  const auto order = ranked(std::move(roofs), setting);
  if (!order) return order.error();
  for (const Limiter each : *order) {
    if (!p.limiter)
      p.limiter = each;
    else if (!p.runner_up && each != *p.limiter)
      p.runner_up = each;
  }
  return Done{};
}

double launch_s(const Machine& machine) {
  const auto found = machine.numbers.find("launch_s");
  return found == machine.numbers.end() ? 0 : found->second.value;
}

Result<std::optional<Count>> number(const Polynomial& count, const Bindings& dims) {
  if (!count.exact())
    return input_error(fmt::format("expected a count below 2^63, found {}", count.text()), "use smaller sizes");
  const auto value = count.count(dims);
  if (value) return std::optional<Count>(*value);
  if (!count.all_in(dims)) return std::optional<Count>();
  return value.error();
}

std::string intensity_formula(const Ratio& ratio, std::span<const std::string> order) {
  const std::string above = ratio.flops.text(order), below = ratio.bytes.text(order);
  if (ratio.flops.zero() || below == "1") return above;
  const bool one_symbol = below.find_first_of("*+/ ") == std::string::npos;
  return in_brackets(above, ratio.flops.terms().size() == 1) + "/" + in_brackets(below, one_symbol);
}

void add_thresholds(Prediction& p, const Polynomial& flops, double peak, const Setting& setting) {
  if (!setting.thresholds) return;
  const Polynomial bytes = p.work.bytes(), &sent = p.work.load;
  const std::span<const std::string> tied =
      p.work.unmasked.zero() ? std::span<const std::string>() : std::span<const std::string>(setting.tied);
  const auto add = [&](const Meeting& meeting) {
    for (Threshold& t : thresholds(meeting, setting.dims, setting.order, setting.ways, tied))
      p.thresholds.push_back(std::move(t));
  };
  if (peak > 0) add({flops, bytes, {peak, setting.bandwidth}});
  if (!p.link) return;
  if (peak > 0) add({flops, sent, {peak, *p.link}, {Limiter::compute, Limiter::network}});
  add({bytes, sent, {setting.bandwidth, *p.link}, {Limiter::memory, Limiter::network}});
}

}  // namespace ridge
