#include "ridge/roofline/sums.h"

#include <algorithm>
#include <cmath>

namespace ridge {
namespace {

std::optional<double> sum(const std::vector<Prediction>& ops, std::optional<double> Prediction::*field) {
  double total = 0;
  for (const Prediction& op : ops) {
    if (!(op.*field)) return std::nullopt;
    total += *(op.*field);
  }
  return total;
}

template <class T> std::optional<T> shared(const std::vector<Prediction>& ops, std::optional<T> Prediction::*field) {
  for (const Prediction& op : ops)
    if (op.*field != ops.front().*field) return std::nullopt;
  return ops.empty() ? std::nullopt : ops.front().*field;
}

// The operations run one after the other, so times add up; the limiter is what limits the larger share of the lower
// bound.
void add_times(Prediction& total, const std::vector<Prediction>& ops) {
  total.peak = shared(ops, &Prediction::peak);
  total.ridge = shared(ops, &Prediction::ridge);
  total.time_math_s = sum(ops, &Prediction::time_math_s);
  total.time_memory_s = sum(ops, &Prediction::time_memory_s);
  for (const Prediction& op : ops)
    if (op.time_network_s) total.time_network_s = total.time_network_s.value_or(0) + *op.time_network_s;
  total.time_lower_s = sum(ops, &Prediction::time_lower_s);
  total.time_upper_s = sum(ops, &Prediction::time_upper_s);
  for (const Prediction& op : ops)
    if (total.missing.find(op.missing) == std::string::npos)
      total.missing += (total.missing.empty() ? "" : ", ") + op.missing;
  if (!total.time_lower_s || ops.empty()) return;
  std::map<Limiter, double> shares{{Limiter::compute, 0}, {Limiter::memory, 0}};
  for (const Prediction& op : ops) shares[*op.limiter] += *op.time_lower_s;
  const auto largest = [&] {
    return std::max_element(shares.begin(), shares.end(), [](auto& a, auto& b) { return a.second < b.second; });
  };
  total.limiter = largest()->first;
  shares.erase(largest());
  total.runner_up = largest()->first;
}

// One rate over another as a fraction; not exact where one is no whole number.
Rational over(double rate, double other) {
  const auto whole = [](double x) { return x == std::floor(x) && x < 0x1p63; };
  if (!whole(rate) || !whole(other)) return rate == other ? Rational(1) : Rational(INT64_MAX) * 2;
  return Rational(static_cast<std::int64_t>(rate), static_cast<std::int64_t>(other));
}

// The operations' FLOPs as if all of them ran at the first one's peak.
struct Weighed {
  Polynomial flops;
  double peak = 0;
  std::vector<Weight> weights;
};

// None: an operation has no peak, or one peak over another is no fraction of whole numbers.
std::optional<Weighed> weighed(const std::vector<Prediction>& ops) {
  Weighed out;
  const Peak* first = nullptr;
  for (const Prediction& op : ops) {
    if (op.work.flops.zero()) continue;
    if (!op.peak) return std::nullopt;
    if (!first) first = &*op.peak;
    const Rational weight = over(first->rate.value, op.peak->rate.value);
    out.flops += op.work.flops * weight;
    const auto known = [&](const Weight& w) { return w.peak == *op.peak; };
    if (*op.peak != *first && std::none_of(out.weights.begin(), out.weights.end(), known))
      out.weights.push_back({*op.peak, weight.real()});
  }
  if (!first || !out.flops.exact()) return std::nullopt;
  out.peak = first->rate.value;
  return out;
}

void add_sum_thresholds(Prediction& sum, const std::optional<Weighed>& all, const Setting& setting) {
  constexpr std::size_t most_terms = 64;  // nobody reads more
  if (!all || all->flops.terms().size() + sum.work.bytes().terms().size() > most_terms) return;
  add_thresholds(sum, all->flops, all->peak, setting);
  if (!sum.thresholds.empty()) sum.weights = all->weights;
}

}  // namespace

Result<Prediction> total_of(const std::vector<Prediction>& ops, const Setting& setting) {
  Prediction total{.work = {.name = "total"}};
  total.bandwidth = setting.bandwidth;
  const auto integer = [](const Prediction& op) { return info(op.work.math).integer; };
  if (!ops.empty() && std::all_of(ops.begin(), ops.end(), integer)) total.work.math = ops.front().work.math;
  for (const Prediction& op : ops) {
    total.work.flops += op.work.flops;
    total.work.bytes_in += op.work.bytes_in;
    total.work.bytes_out += op.work.bytes_out;
    total.work.bytes_sent += op.work.bytes_sent;
    if (op.link) total.link = op.link;
  }
  const Polynomial moved = total.work.bytes();
  const auto flops = number(total.work.flops, setting.dims), bytes = number(moved, setting.dims);
  if (!flops) return flops.error();
  if (!bytes) return bytes.error();
  total.flops = *flops;
  total.bytes = *bytes;
  total.intensity_formula = intensity_formula(reduced(total.work.flops, moved), setting.order);
  if (total.flops && total.bytes && *total.bytes > 0)
    total.intensity = static_cast<double>(*total.flops) / moved.real(setting.sizes);
  add_times(total, ops);
  if (ops.size() == 1)
    total.thresholds = ops.front().thresholds;
  else
    add_sum_thresholds(total, weighed(ops), setting);
  return total;
}

namespace {

// Operations as one kernel: their math one after the other, what they send likewise, and only what `work` says moved.
Result<Prediction> as_one(Work work, const std::vector<Prediction>& ops, const Prediction& total,
                          const Setting& setting) {
  Prediction fused{.work = std::move(work)};
  const Polynomial formula = fused.work.bytes();
  fused.work.math = total.work.math;
  fused.flops = total.flops;
  const auto bytes = number(formula, setting.dims);
  if (!bytes) return bytes.error();
  fused.bytes = *bytes;
  fused.bandwidth = setting.bandwidth;
  fused.link = total.link;
  fused.peak = total.peak;
  fused.ridge = total.ridge;
  fused.missing = total.missing;
  fused.intensity_formula = intensity_formula(reduced(fused.work.flops, formula), setting.order);
  const auto all = weighed(ops);
  add_sum_thresholds(fused, all, setting);
  if (!fused.flops || !fused.bytes) return fused;
  const double moved = formula.real(setting.sizes);
  fused.intensity = static_cast<double>(*fused.flops) / moved;
  fused.time_memory_s = moved / setting.bandwidth;
  fused.time_network_s = total.time_network_s;
  fused.time_math_s = total.time_math_s;
  if (!fused.time_math_s) return fused;
  fused.time_lower_s = std::max({*fused.time_math_s, *fused.time_memory_s, fused.time_network_s.value_or(0)});
  fused.time_upper_s = *fused.time_math_s + *fused.time_memory_s + fused.time_network_s.value_or(0);
  // Times that are equal to the last digit are told apart where the FLOPs can be weighed.
  std::vector<Roof> roofs{{Limiter::compute, all ? all->flops : Polynomial(), all ? all->peak : 1, *fused.time_math_s},
                          {Limiter::memory, formula, setting.bandwidth, *fused.time_memory_s}};
  if (fused.time_network_s)
    roofs.push_back({Limiter::network, fused.work.bytes_sent, *fused.link, *fused.time_network_s});
  const auto order = ranked(std::move(roofs), setting);
  if (!order) return order.error();
  fused.limiter = order->at(0);
  fused.runner_up = order->at(1);
  return fused;
}

}  // namespace

Result<std::optional<Prediction>> fused_of(const Program& program, const std::vector<Work>& work,
                                           const Explanation& apart, const Setting& setting) {
  const auto inside = [](const Tensor& t) { return t.role == Role::intermediate; };
  if (std::none_of(program.tensors.begin(), program.tensors.end(), inside)) return std::optional<Prediction>();
  auto fused = as_one(count_fused(program, work, setting.dims), apart.ops, apart.total, setting);
  if (!fused) return fused.error();
  return std::optional(*std::move(fused));
}

Result<Explanation> grouped(const Program& program, const Explanation& apart,
                            const std::vector<std::vector<int>>& groups, const std::vector<int>& stored) {
  const auto bandwidth = apart.machine.bandwidth();
  if (!bandwidth) return bandwidth.error();
  Setting setting{apart.machine, bandwidth->value, apart.dims, apart.dim_names};
  setting.sizes = {apart.dims.begin(), apart.dims.end()};
  setting.thresholds = false;
  std::vector<Work> all;
  for (const Prediction& op : apart.ops) all.push_back(op.work);
  Explanation out = apart;
  out.ops.clear();
  for (const std::vector<int>& group : groups) {
    std::vector<Prediction> parts;
    for (const int s : group) parts.push_back(apart.ops[static_cast<std::size_t>(s)]);
    if (parts.size() == 1) {
      out.ops.push_back(std::move(parts[0]));
      continue;
    }
    const auto total = total_of(parts, setting);
    if (!total) return total.error();
    Work work = count_fused(program, all, apart.dims, group, stored);
    work.name = parts.back().work.name;
    for (const Prediction& part : parts) {
      work.text += (work.text.empty() ? "" : "; ") + part.work.text;
      work.contraction |= part.work.contraction;
    }
    auto one = as_one(std::move(work), parts, *total, setting);
    if (!one) return one.error();
    if (!one->peak) {  // of several, that of the part which computes longest
      const auto longest = std::max_element(parts.begin(), parts.end(), [](const Prediction& x, const Prediction& y) {
        return x.time_math_s.value_or(0) < y.time_math_s.value_or(0);
      });
      one->peak = longest->peak;
      one->ridge = longest->ridge;
    }
    out.ops.push_back(*std::move(one));
  }
  auto total = total_of(out.ops, setting);
  if (!total) return total.error();
  out.total = *std::move(total);
  return out;
}

}  // namespace ridge
