#include "ridge/roofline/routines/routings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

std::optional<std::int64_t> value(const Axis& axis, const Bindings& dims) {
  if (!axis.named()) return axis.literal;
  const auto found = dims.find(axis.dim);
  return found == dims.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t kept(std::int64_t load, std::int64_t capacity) { return capacity > 0 ? std::min(load, capacity) : load; }

std::int64_t kept(const Routing& routing) {
  std::int64_t sum = 0;
  for (const std::int64_t load : routing.loads) sum += kept(load, routing.capacity);
  return sum;
}

// Experts that get any.
std::int64_t busy(const Routing& routing) {
  return std::count_if(routing.loads.begin(), routing.loads.end(), [](std::int64_t load) { return load > 0; });
}

std::string free_word(const Program& program, std::string word) {
  const std::vector<std::string> dims = program.dim_names();
  while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(word); }))
    word += "_";
  return word;
}

int index_of(const Program& program, Masks& masks, const Routing& routing, RoutingCount what) {
  Mask mask{.rows = {}, .columns = notation::text(routing.experts), .routing = routing, .of_routing = what};
  std::size_t alike = 0;
  for (std::size_t i = 0; i < masks.all.size(); ++i) {
    if (masks.all[i].same_condition(mask)) return static_cast<int>(i);
    alike += masks.all[i].routing && masks.all[i].of_routing == what;
  }
  const std::string word = free_word(program, what == RoutingCount::experts ? "milliexperts" : "kept");
  mask.symbol = alike == 0 ? word : fmt::format("{}{}", word, alike + 1);
  masks.all.push_back(std::move(mask));
  return static_cast<int>(masks.all.size()) - 1;
}

}  // namespace

void add_routings(const Program& program, Masks& masks) {
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Routine* const routine = routine_of(program.statements[s]);
    if (!routine || routine->word != Word::routed) continue;
    const Routing routing = routing_of(program, std::get<Expression>(program.statements[s].op));
    masks.statements[s].experts = index_of(program, masks, routing, RoutingCount::experts);
    masks.statements[s].kept = index_of(program, masks, routing, RoutingCount::kept);
  }
}

std::vector<std::string> hangs_on(const Routing& routing) {
  std::vector<std::string> out;
  for (const Axis& axis : routing.indices)
    if (axis.named()) out.push_back(axis.dim);
  if (routing.experts.named()) out.push_back(routing.experts.dim);
  return out;
}

std::optional<std::int64_t> counted(const Routing& routing, RoutingCount what, const Bindings& dims) {
  const auto experts = value(routing.experts, dims), each = value(routing.indices.back(), dims);
  std::int64_t rows = 1;
  for (const Axis& axis : routing.indices) {
    const auto size = value(axis, dims);
    if (!size || __builtin_mul_overflow(rows, *size, &rows)) return std::nullopt;
  }
  if (!experts || !each || *each > *experts || *experts > std::int64_t{1} << 40) return std::nullopt;
  if (!routing.loads.empty()) {
    std::int64_t all = 0;
    for (const std::int64_t load : routing.loads) all += load;
    if (all != rows || static_cast<std::int64_t>(routing.loads.size()) != *experts) return std::nullopt;
    return what == RoutingCount::kept ? kept(routing) : 1000 * busy(routing);
  }
  if (what == RoutingCount::kept) {
    const std::int64_t least = rows / *experts, more = rows % *experts;
    return more * kept(least + 1, routing.capacity) + (*experts - more) * kept(least, routing.capacity);
  }
  const double missed =
      std::pow(1 - static_cast<double>(*each) / static_cast<double>(*experts), static_cast<double>(rows / *each));
  return std::llround(1000 * static_cast<double>(*experts) * (1 - missed));
}

Polynomial every(const Routing& routing, RoutingCount what) {
  if (what == RoutingCount::experts) return routing.experts.extent() * Polynomial(1000);
  Polynomial rows = 1;
  for (const Axis& axis : routing.indices) rows = rows * axis.extent();
  return rows;
}

std::optional<Polynomial> plain(const Routing& routing, RoutingCount what) {
  if (what == RoutingCount::kept && routing.capacity == 0) return every(routing, what);
  if (routing.loads.empty()) return std::nullopt;
  if (what == RoutingCount::kept) return Polynomial(kept(routing));
  return Polynomial(1000 * busy(routing));
}

std::string misfit(const Routing& routing) {
  return fmt::format("rows cannot be routed so over {}", notation::text(routing.experts));
}

}  // namespace ridge
