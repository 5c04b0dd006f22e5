#include "ridge/roofline/sizes/flat_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ridge/roofline/compare_roofs.h"

namespace ridge {
namespace {

constexpr double max_size = 0x1p63, max_count = 1e38;

struct FlatRoof {
  Limiter name = Limiter::compute;
  double time = 0;  // Seconds
  Count count = 0;  // count/scale is in FLOPs or bytes; scale 0 if unknown as whole numbers
  std::int64_t scale = 0;
  double rate = 1;
};

FlatRoof make_roof(Limiter name, Count count, const FlatCount& from, double rate) {
  const std::int64_t scale = from.denominator();
  return {name, static_cast<double>(count) / static_cast<double>(scale) / rate, count, scale, rate};
}

// True if `a` takes at least as long as `b`; if doubles are too close, whole numbers decide, as in explain().
bool is_slower_or_equal(const FlatRoof& a, const FlatRoof& b) {
  if (std::abs(a.time - b.time) > 1e-9 * b.time) return a.time > b.time;
  Count above = 0, below = 0;
  const bool is_exact = a.scale > 0 && b.scale > 0 && !__builtin_mul_overflow(a.count, b.scale, &above) &&
                        !__builtin_mul_overflow(b.count, a.scale, &below);
  return is_exact ? is_compute_bound(above, below, {a.rate, b.rate}) : a.time >= b.time;
}

// Sums over the preceding operations.
struct TimeSums {
  double lower = 0, upper = 0;
  std::array<double, 4> by_limiter = {};  // Indices: compute, memory, network, overhead
  void add_operation(double math, double memory, double network, double launch) {
    lower += std::max({math, memory, network, launch});
    upper += std::max(math + memory + network, launch);
    by_limiter[0] += math;
    by_limiter[1] += memory;
    by_limiter[2] += network;
    by_limiter[3] += launch;
  }
};

// Returns the roof with the largest sum of times, the first of equals.
Limiter find_limiter(const FlatProgram& program, const TimeSums& times, Count bytes, const std::int64_t* sizes) {
  const FlatSum& sum = program.sum;
  const auto flops = sum.flops.scaled_value(sizes), load = sum.link_load.scaled_value(sizes);
  std::array<FlatRoof, 4> roofs{
      sum.peak > 0 && flops ? make_roof(Limiter::compute, *flops, sum.flops, sum.peak) : FlatRoof{},
      make_roof(Limiter::memory, bytes, sum.bytes, program.bandwidth),
      load ? make_roof(Limiter::network, *load, sum.link_load, program.link_rate) : FlatRoof{Limiter::network},
      FlatRoof{Limiter::overhead, 0, 1, 1, program.launch_s > 0 ? 1 / times.by_limiter[3] : 1}};
  const FlatRoof* top = nullptr;
  for (std::size_t i = 0; i < roofs.size(); ++i) {
    roofs[i].time = times.by_limiter[i];
    if (i >= 2 && times.by_limiter[i] == 0) continue;
    if (!top || !is_slower_or_equal(*top, roofs[i])) top = &roofs[i];
  }
  return top->name;
}

std::optional<Count> count_mask(const FlatMask& each, const std::int64_t* sizes) {
  Bindings dims = each.constants;
  for (const auto& [dim, index] : each.indexed) dims[dim] = sizes[index];
  const auto count = count_unmasked(each.mask, dims);
  return count ? std::optional<Count>(*count) : std::nullopt;
}

// Writes the values after the independent sizes; returns the reason if one of them is invalid.
std::uint16_t compute_values(const FlatProgram& program, std::int64_t* sizes) {
  const std::size_t first = program.names.size() - program.computed.size();
  for (std::size_t i = 0; i < program.computed.size(); ++i) {
    const FlatValue& each = program.computed[i];
    auto value = each.mask ? count_mask(*each.mask, sizes) : each.count.ceil_value(sizes);
    if (!value && each.mask) return each.reason;
    if (each.low && value) value = std::max(*value, each.low->ceil_value(sizes).value_or(*value));
    if (each.high && value) value = std::min(*value, each.high->ceil_value(sizes).value_or(*value));
    if (!value || std::abs(static_cast<double>(*value)) >= max_size) return size_overflow;
    if (each.is_size && (*value < 1 || *each.count.scaled_value(sizes) % each.count.denominator() != 0))
      return each.reason;
    sizes[first + i] = static_cast<std::int64_t>(*value);
  }
  return all_known;
}

}  // namespace

FlatCount::FlatCount(const Polynomial& polynomial, const SizeNames& names) {
  for (const auto& term : polynomial.terms()) denominator_ = std::lcm(denominator_, term.second.denominator());
  for (const auto& [monomial, coefficient] : polynomial.terms()) {
    Term term{coefficient.numerator() * (denominator_ / coefficient.denominator()), {}};
    for (const auto& [symbol, power] : monomial) {
      const auto name = std::find(names.begin(), names.end(), symbol);
      for (int i = 0; i < power; ++i) term.factors.push_back(static_cast<int>(name - names.begin()));
    }
    terms_.push_back(std::move(term));
  }
}

std::optional<Count> FlatCount::scaled_value(const std::int64_t* sizes) const {
  unsigned __int128 exact = 0;
  double approximate = 0, largest = 0;
  for (const Term& term : terms_) {
    unsigned __int128 product = static_cast<unsigned __int128>(term.coefficient);
    double size = static_cast<double>(term.coefficient);
    for (const int factor : term.factors) {
      product *= static_cast<unsigned __int128>(sizes[factor]);
      size *= static_cast<double>(sizes[factor]);
    }
    exact += product;
    approximate += size;
    largest = std::max(largest, std::abs(size));
  }
  if (std::max(largest, std::abs(approximate)) >= max_count * (1 - 1e-12)) return std::nullopt;
  return static_cast<Count>(exact);
}

std::optional<Count> FlatCount::ceil_value(const std::int64_t* sizes) const {
  const auto scaled = scaled_value(sizes);
  if (!scaled || denominator_ == 1) return scaled;
  return *scaled / denominator_ + (*scaled % denominator_ > 0);
}

FlatSizes::FlatSizes(SizeNames independent, Bindings constants)
    : names_(std::move(independent)), constants_(std::move(constants)) {}

int FlatSizes::index_of(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? -1 : static_cast<int>(found - names_.begin());
}

std::int64_t FlatSizes::constant(const std::string& name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? 1 : found->second;
}

FlatCount FlatSizes::compile(Polynomial count) const {
  for (const std::string& symbol : count.symbols())
    if (!has_name(symbol)) count = count.substitute(symbol, Polynomial(constant(symbol)));
  return {count, names_};
}

void FlatSizes::add_value(std::string name, FlatValue value) {
  computed_.push_back(std::move(value));
  names_.push_back(std::move(name));
}

void FlatSizes::add_derived_size(const std::string& name, const Polynomial& formula) {
  add_value(name, {.count = compile(formula), .is_size = true});
}

constexpr std::string_view helper_prefix = "helper ";  // Names of sizes do not begin so

bool FlatSizes::is_helper(std::size_t index) const { return names_[index].starts_with(helper_prefix); }

Polynomial FlatSizes::add_helper(const Polynomial& count, const Polynomial& low,
                                 const std::optional<Polynomial>& high) {
  FlatValue value{.count = compile(count), .low = compile(low)};
  if (high) value.high = compile(*high);
  std::string name = fmt::format("{}{}", helper_prefix, names_.size());
  add_value(name, std::move(value));
  return Polynomial::make_symbol(name);
}

// Counts pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns. Row i has max(i - c + 1, 0) - max(i - c + 1 - columns,
// 0) of them, so the count is the sum of four triangles of max(n, 0) rows.
Polynomial FlatSizes::count_pairs_from(const Polynomial& c, const Polynomial& rows, const Polynomial& columns) {
  const auto triangle = [&](const Polynomial& n) {
    const Polynomial side = add_helper(n, 0);
    return (side * side + side) * Rational(1, 2);
  };
  const Polynomial none;
  return triangle(rows - c) - triangle(none - c) - triangle(rows - columns - c) + triangle(none - columns - c);
}

// Counts the indices from max(0, lower) to min(size - 1, upper).
void FlatSizes::add_indices(const IndexMask& mask) {
  const Polynomial size = Polynomial::make_symbol(mask.rows), zero;
  const Polynomial first = mask.lower ? add_helper(*mask.lower, zero, size) : zero,
                   end = mask.upper ? add_helper(*mask.upper + 1, zero, size) : size;
  add_value(mask.symbol, {.count = compile(end - first), .low = compile(zero)});
}

void FlatSizes::add_mask(const IndexMask& mask) {
  if (mask.window || mask.routing || mask.region || mask.gathered || !mask.row_lengths.empty()) {
    FlatMask counted{mask, constants_, {}};
    for (const std::string& dim : dependency_dims(mask))
      if (has_name(dim)) counted.indexed.emplace_back(dim, index_of(dim));
    add_value(mask.symbol, {.count = compile({}), .mask = std::move(counted)});
    return;
  }
  if (mask.columns.empty()) return add_indices(mask);
  const Polynomial rows = Polynomial::make_symbol(mask.rows), columns = Polynomial::make_symbol(mask.columns);
  Polynomial lower = Polynomial() - columns, pairs = rows * columns;
  if (mask.lower) {
    lower = add_helper(*mask.lower, lower, rows);
    pairs = count_pairs_from(lower, rows, columns);
  }
  if (mask.upper) pairs = pairs - count_pairs_from(add_helper(*mask.upper, lower - 1, rows) + 1, rows, columns);
  add_value(mask.symbol, {.count = compile(pairs)});
}

void FlatSizes::add_shard(const DimShard& shard) {
  if (has_name(shard.dim))
    add_value(shard.name, {.count = compile(Polynomial::make_symbol(shard.dim) * Rational(1, shard.shards))});
  else
    constants_[shard.name] = (constant(shard.dim) - 1) / shard.shards + 1;
}

SweepPoint evaluate_point(const FlatProgram& program, std::int64_t* sizes) {
  SweepPoint point;
  point.reason = compute_values(program, sizes);
  if (point.reason != all_known) return point;
  point.reason = count_overflow;
  const auto all = program.sum.bytes.scaled_value(sizes);
  if (!all) return point;
  Count flops = 0;
  TimeSums times;
  const auto count = [](Count scaled, const FlatCount& from) {
    return static_cast<double>(scaled) / static_cast<double>(from.denominator());
  };
  for (const FlatOp& op : program.ops) {
    const auto f = op.flops.scaled_value(sizes), m = op.math_load.scaled_value(sizes), b = op.bytes.scaled_value(sizes),
               s = op.bytes_sent.scaled_value(sizes);
    if (!f || !m || !b || !s) return point;
    double network_s = 0;
    for (const FlatTransfer& transfer : op.transfers) {
      const auto sent = transfer.bytes.scaled_value(sizes);
      if (!sent) return point;
      network_s += transfer.cost.seconds(count(*sent, transfer.bytes));
    }
    if (__builtin_add_overflow(flops, *f / op.flops.denominator(), &flops)) return point;
    if (static_cast<double>(flops) >= max_count) return point;
    times.add_operation(op.peak > 0 ? count(*m, op.math_load) / op.peak : 0, count(*b, op.bytes) / program.bandwidth,
                        network_s, program.launch_s);
    point.bytes_sent += count(*s, op.bytes_sent);
  }
  point.flops = flops;
  point.bytes = *all / program.sum.bytes.denominator() + (*all % program.sum.bytes.denominator() != 0);
  point.reason = all_known;
  point.time_lower_s = times.lower;
  point.time_upper_s = times.upper;
  point.time_network_s = times.by_limiter[2];
  point.limiter = find_limiter(program, times, *all, sizes);
  return point;
}

}  // namespace ridge
