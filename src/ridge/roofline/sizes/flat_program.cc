#include "ridge/roofline/sizes/flat_program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ridge/roofline/balance.h"

namespace ridge {
namespace {

constexpr double most_size = 0x1p63, most_count = 1e38;

struct FlatRoof {
  Limiter name = Limiter::compute;
  double time = 0;  // s
  Count count = 0;  // count/scale FLOPs or bytes; scale 0: not known as whole numbers
  std::int64_t scale = 0;
  double rate = 1;
};

FlatRoof roof(Limiter name, Count count, const FlatCount& from, double rate) {
  const std::int64_t scale = from.denominator();
  return {name, static_cast<double>(count) / static_cast<double>(scale) / rate, count, scale, rate};
}

// As explain() does: what doubles cannot tell apart is decided in whole numbers.
bool takes_as_long(const FlatRoof& a, const FlatRoof& b) {
  if (std::abs(a.time - b.time) > 1e-9 * b.time) return a.time > b.time;
  Count above = 0, below = 0;
  const bool whole = a.scale > 0 && b.scale > 0 && !__builtin_mul_overflow(a.count, b.scale, &above) &&
                     !__builtin_mul_overflow(b.count, a.scale, &below);
  return whole ? compute_bound(above, below, {a.rate, b.rate}) : a.time >= b.time;
}

// Sums over the operations so far.
struct Times {
  double lower = 0, upper = 0;
  std::array<double, 4> by = {};  // compute, memory, network, overhead
  void add(double math, double memory, double network, double launch) {
    lower += std::max({math, memory, network, launch});
    upper += std::max(math + memory + network, launch);
    by[0] += math;
    by[1] += memory;
    by[2] += network;
    by[3] += launch;
  }
};

// What has the largest sum of times; of equals the first.
Limiter limiter_of(const FlatProgram& program, const Times& times, Count bytes, const std::int64_t* sizes) {
  const FlatSum& sum = program.sum;
  const auto flops = sum.flops.scaled(sizes), load = sum.load.scaled(sizes);
  std::array<FlatRoof, 4> roofs{
      sum.peak > 0 && flops ? roof(Limiter::compute, *flops, sum.flops, sum.peak) : FlatRoof{},
      roof(Limiter::memory, bytes, sum.bytes, program.bandwidth),
      load ? roof(Limiter::network, *load, sum.load, program.link) : FlatRoof{Limiter::network},
      FlatRoof{Limiter::overhead, 0, 1, 1, program.launch_s > 0 ? 1 / times.by[3] : 1}};
  const FlatRoof* top = nullptr;
  for (std::size_t i = 0; i < roofs.size(); ++i) {
    roofs[i].time = times.by[i];
    if (i >= 2 && times.by[i] == 0) continue;
    if (!top || !takes_as_long(*top, roofs[i])) top = &roofs[i];
  }
  return top->name;
}

// Writes the sizes that hang on others; the reason if one is none.
std::uint16_t complete(const FlatProgram& program, std::int64_t* sizes) {
  const std::size_t cut = program.names.size() - program.parts.size(), counted = cut - program.masks.size(),
                    first = counted - program.derived.size();
  for (std::size_t i = 0; i < program.derived.size(); ++i) {
    const auto size = program.derived[i].scaled(sizes);
    const std::int64_t parts = program.derived[i].denominator();
    if (!size || static_cast<double>(*size) / static_cast<double>(parts) >= most_size) return beyond_size;
    if (*size < 1 || *size % parts != 0) return static_cast<std::uint16_t>(first_derived + i);
    sizes[first + i] = static_cast<std::int64_t>(*size / parts);
  }
  for (std::size_t i = 0; i < program.masks.size(); ++i) {
    Bindings dims = program.masks[i].fixed;
    for (const auto& [dim, place] : program.masks[i].moving) dims[dim] = sizes[place];
    const auto count = pairs(program.masks[i].mask, dims);
    const Mask& mask = program.masks[i].mask;
    if (!count && (mask.window || mask.routing))
      return static_cast<std::uint16_t>(first_derived + program.derived.size() + i);
    if (!count) return beyond_size;
    sizes[counted + i] = *count;
  }
  for (std::size_t i = 0; i < program.parts.size(); ++i) {
    const FlatPart& part = program.parts[i];
    sizes[cut + i] = (sizes[part.name] - 1) / part.parts + 1;
  }
  return nothing_unknown;
}

}  // namespace

FlatCount::FlatCount(const Polynomial& polynomial, const Names& names) {
  for (const auto& term : polynomial.terms()) denominator_ = std::lcm(denominator_, term.second.den());
  for (const auto& [monomial, coefficient] : polynomial.terms()) {
    Term term{coefficient.num() * (denominator_ / coefficient.den()), {}};
    for (const auto& [symbol, power] : monomial) {
      const auto name = std::find(names.begin(), names.end(), symbol);
      for (int i = 0; i < power; ++i) term.factors.push_back(static_cast<int>(name - names.begin()));
    }
    terms_.push_back(std::move(term));
  }
}

std::optional<Count> FlatCount::scaled(const std::int64_t* sizes) const {
  unsigned __int128 exact = 0;
  double rough = 0, largest = 0;
  for (const Term& term : terms_) {
    unsigned __int128 product = static_cast<unsigned __int128>(term.coefficient);
    double size = static_cast<double>(term.coefficient);
    for (const int factor : term.factors) {
      product *= static_cast<unsigned __int128>(sizes[factor]);
      size *= static_cast<double>(sizes[factor]);
    }
    exact += product;
    rough += size;
    largest = std::max(largest, std::abs(size));
  }
  if (std::max(largest, std::abs(rough)) >= most_count * (1 - 1e-12)) return std::nullopt;
  return static_cast<Count>(exact);
}

SweepPoint evaluate(const FlatProgram& program, std::int64_t* sizes) {
  SweepPoint point;
  point.reason = complete(program, sizes);
  if (point.reason != nothing_unknown) return point;
  point.reason = beyond_range;
  const auto all = program.sum.bytes.scaled(sizes);
  if (!all) return point;
  Count flops = 0;
  Times times;
  const auto count = [](Count scaled, const FlatCount& from) {
    return static_cast<double>(scaled) / static_cast<double>(from.denominator());
  };
  for (const FlatOp& op : program.ops) {
    const auto f = op.flops.scaled(sizes), b = op.bytes.scaled(sizes), l = op.load.scaled(sizes),
               s = op.sent.scaled(sizes);
    if (!f || !b || !l || !s) return point;
    if (__builtin_add_overflow(flops, *f / op.flops.denominator(), &flops)) return point;
    if (static_cast<double>(flops) >= most_count) return point;
    times.add(op.peak > 0 ? count(*f, op.flops) / op.peak : 0, count(*b, op.bytes) / program.bandwidth,
              count(*l, op.load) / program.link, program.launch_s);
    point.bytes_sent += count(*s, op.sent);
  }
  point.flops = flops;
  point.bytes = *all / program.sum.bytes.denominator() + (*all % program.sum.bytes.denominator() != 0);
  point.reason = nothing_unknown;
  point.time_lower_s = times.lower;
  point.time_upper_s = times.upper;
  point.time_network_s = times.by[2];
  point.limiter = limiter_of(program, times, *all, sizes);
  return point;
}

}  // namespace ridge
