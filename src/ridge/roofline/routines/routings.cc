#include "ridge/roofline/routines/routings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

std::int64_t kept_rows(std::int64_t load, std::int64_t capacity) {
  return capacity > 0 ? std::min(load, capacity) : load;
}

std::int64_t kept_rows(const Routing& routing) {
  std::int64_t sum = 0;
  for (const std::int64_t load : routing.loads) sum += kept_rows(load, routing.capacity);
  return sum;
}

// Returns the number of experts with a row.
std::int64_t count_used_experts(const Routing& routing) {
  return std::count_if(routing.loads.begin(), routing.loads.end(), [](std::int64_t load) { return load > 0; });
}

int find_or_add_mask(const Program& program, ProgramMasks& masks, const Routing& routing, RoutingCount what) {
  IndexMask mask{
      .rows = {}, .columns = program::format_axis(routing.experts), .routing = routing, .routing_count = what};
  std::size_t same_kind = 0;
  for (std::size_t i = 0; i < masks.all.size(); ++i) {
    if (masks.all[i].has_same_condition(mask)) return static_cast<int>(i);
    same_kind += masks.all[i].routing && masks.all[i].routing_count == what;
  }
  const std::string symbol = make_unused_symbol(program, what == RoutingCount::experts ? "milliexperts" : "kept");
  mask.symbol = same_kind == 0 ? symbol : fmt::format("{}{}", symbol, same_kind + 1);
  masks.all.push_back(std::move(mask));
  return static_cast<int>(masks.all.size()) - 1;
}

}  // namespace

void add_routing_masks(const Program& program, ProgramMasks& masks) {
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Routine* const routine = routine_of(program.statements[s]);
    if (!routine || routine->kind != RoutineKind::routed) continue;
    const Routing routing = routing_of(program, std::get<Expression>(program.statements[s].op));
    masks.statements[s].experts = find_or_add_mask(program, masks, routing, RoutingCount::experts);
    masks.statements[s].kept = find_or_add_mask(program, masks, routing, RoutingCount::kept);
  }
}

std::vector<std::string> dependency_dims(const Routing& routing) {
  std::vector<std::string> out;
  for (const Axis& axis : routing.indices)
    if (axis.is_named()) out.push_back(axis.dim);
  if (routing.experts.is_named()) out.push_back(routing.experts.dim);
  return out;
}

std::optional<std::int64_t> count_routing(const Routing& routing, RoutingCount what, const Bindings& dims) {
  const auto experts = routing.experts.size(dims), experts_per_row = routing.indices.back().size(dims);
  std::int64_t rows = 1;
  for (const Axis& axis : routing.indices) {
    const auto size = axis.size(dims);
    if (!size || __builtin_mul_overflow(rows, *size, &rows)) return std::nullopt;
  }
  if (!experts || !experts_per_row || *experts_per_row > *experts || *experts > std::int64_t{1} << 40)
    return std::nullopt;
  if (!routing.loads.empty()) {
    std::int64_t all = 0;
    for (const std::int64_t load : routing.loads) all += load;
    if (all != rows || static_cast<std::int64_t>(routing.loads.size()) != *experts) return std::nullopt;
    return what == RoutingCount::kept ? kept_rows(routing) : 1000 * count_used_experts(routing);
  }
  if (what == RoutingCount::kept) {
    const std::int64_t min_load = rows / *experts, larger_loads = rows % *experts;
    return larger_loads * kept_rows(min_load + 1, routing.capacity) +
           (*experts - larger_loads) * kept_rows(min_load, routing.capacity);
  }
  const double missed = std::pow(1 - static_cast<double>(*experts_per_row) / static_cast<double>(*experts),
                                 static_cast<double>(rows / *experts_per_row));
  return std::llround(1000 * static_cast<double>(*experts) * (1 - missed));
}

Polynomial full_routing_count(const Routing& routing, RoutingCount what) {
  if (what == RoutingCount::experts) return routing.experts.extent() * Polynomial(1000);
  Polynomial rows = 1;
  for (const Axis& axis : routing.indices) rows = rows * axis.extent();
  return rows;
}

std::optional<Polynomial> routing_closed_form(const Routing& routing, RoutingCount what) {
  if (what == RoutingCount::kept && routing.capacity == 0) return full_routing_count(routing, what);
  if (routing.loads.empty()) return std::nullopt;
  if (what == RoutingCount::kept) return Polynomial(kept_rows(routing));
  return Polynomial(1000 * count_used_experts(routing));
}

std::string routing_mismatch_text(const Routing& routing) {
  return fmt::format("rows cannot be routed over {} at these sizes", program::format_axis(routing.experts));
}

}  // namespace ridge
