#include "ridge/roofline/sizes/compute_bound_products.h"

#include <algorithm>

namespace ridge {
namespace {

// Returns the thresholds of compute against memory and network, one each, or nullopt if there are several crossings.
std::optional<std::vector<Threshold>> find_compute_thresholds(const Prediction& p, const std::string& dim) {
  std::vector<Threshold> out;
  for (const Threshold& t : p.thresholds) {
    if (t.dim != dim || t.roofs[0] != Limiter::compute) continue;
    const auto same = [&](const Threshold& other) { return other.roofs == t.roofs; };
    if (std::any_of(out.begin(), out.end(), same)) return std::nullopt;
    out.push_back(t);
  }
  return out;
}

// True if compute takes longest at the given sizes.
bool is_limited_by_compute(const Prediction& p) {
  return p.time_math_s && p.time_memory_s && *p.time_math_s >= *p.time_memory_s &&
         *p.time_math_s >= p.time_network_s.value_or(0);
}

// Returns the thresholds of one dimension, or nullopt if that of some product is unknown.
std::optional<std::vector<Threshold>> list_dim_thresholds(const std::vector<const Prediction*>& products,
                                                          const std::string& dim) {
  std::vector<Threshold> out;
  for (const Prediction* p : products) {
    auto found = find_compute_thresholds(*p, dim);
    if (!found || (found->empty() && !is_limited_by_compute(*p))) return std::nullopt;
    out.insert(out.end(), found->begin(), found->end());
  }
  return out;
}

// Returns the threshold that holds if all of them do, or nullopt if they hold only between two sizes.
std::optional<Threshold> intersect_thresholds(const std::vector<Threshold>& all) {
  std::optional<Threshold> out;
  for (const Threshold& t : all) {
    if (t.relation == Relation::never) return t;
    if (t.relation == Relation::always) continue;
    if (!t.value || (out && out->relation != t.relation)) return std::nullopt;
    const bool narrower = !out || (t.relation == Relation::at_least ? *t.value > *out->value : *t.value < *out->value);
    if (narrower) out = t;
  }
  if (!out && !all.empty()) out = all.front();  // always
  return out;
}

}  // namespace

std::vector<Threshold> find_compute_bound_sizes(const std::vector<Prediction>& ops, const RooflineContext& context) {
  std::vector<const Prediction*> products;
  for (const Prediction& p : ops)
    if (p.work.contraction && p.peak) products.push_back(&p);
  std::vector<Threshold> out;
  if (products.size() < 2) return out;
  for (const std::string& dim : context.order) {
    const auto all = list_dim_thresholds(products, dim);
    if (!all || all->empty()) continue;
    if (auto one = intersect_thresholds(*all)) out.push_back(*std::move(one));
  }
  return out;
}

}  // namespace ridge
