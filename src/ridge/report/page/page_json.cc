#include "ridge/report/page/page_json.h"

#include <fmt/format.h>

#include "ridge/roofline/roofs.h"

namespace ridge {

Json integer_json(std::int64_t value) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  return value <= exact && value >= -exact ? Json(value) : Json(std::to_string(value));
}

Json count_json(const FlatCount& count) {
  Json out = Json::array({integer_json(count.denominator())});
  for (const FlatCount::Term& term : count.terms()) {
    out.push_back({integer_json(term.coefficient)});
    for (const int factor : term.factors) out.back().push_back(factor);
  }
  return out;
}

std::size_t CountTable::add(const FlatCount& count) {
  Json json = count_json(count);
  const auto [found, is_new] = indices_.try_emplace(json.dump(), all_.size());
  if (is_new) all_.push_back(std::move(json));
  return found->second;
}

std::string rate_name(ComputeUnit unit, DType dtype) {
  return fmt::format("{} {}", unit_name(unit), dtype_name(dtype));
}

Json line_json(const LinearTime& line) { return {line.wait_s, line.seconds_per_byte}; }

Json machine_json(const Machine& machine) {
  Json out{{"name", machine.name}, {"title", machine.title}, {"peaks", Json::object()}, {"memory", Json::array()}};
  const auto value = [](const std::optional<SourcedValue>& n) { return n ? Json(n->value) : Json(); };
  for (const Peak& peak : machine.peaks) out["peaks"].emplace(rate_name(peak.unit, peak.dtype), peak.rate.value);
  for (const MemoryLevel& level : machine.memory)
    out["memory"].push_back({level.name, value(level.bandwidth), value(level.capacity)});
  if (const double launch = launch_seconds(machine); launch > 0) out["launch"] = launch;
  return out;
}

}  // namespace ridge
