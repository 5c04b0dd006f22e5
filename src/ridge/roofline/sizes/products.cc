#include "ridge/roofline/sizes/products.h"

#include <algorithm>

namespace ridge {
namespace {

// Of an operation, compute against memory and against the network, one each; none: there are several crossings.
std::optional<std::vector<Threshold>> of_operation(const Prediction& p, const std::string& dim) {
  std::vector<Threshold> out;
  for (const Threshold& t : p.thresholds) {
    if (t.dim != dim || t.roofs[0] != Limiter::compute) continue;
    const auto same = [&](const Threshold& other) { return other.roofs == t.roofs; };
    if (std::any_of(out.begin(), out.end(), same)) return std::nullopt;
    out.push_back(t);
  }
  return out;
}

// At the sizes given.
bool bound_by_compute(const Prediction& p) {
  return p.time_math_s && p.time_memory_s && *p.time_math_s >= *p.time_memory_s &&
         *p.time_math_s >= p.time_network_s.value_or(0);
}

// The thresholds of one dimension; none: of an operation it is not known.
std::optional<std::vector<Threshold>> of_dimension(const std::vector<const Prediction*>& products,
                                                   const std::string& dim) {
  std::vector<Threshold> out;
  for (const Prediction* p : products) {
    auto here = of_operation(*p, dim);
    if (!here || (here->empty() && !bound_by_compute(*p))) return std::nullopt;
    out.insert(out.end(), here->begin(), here->end());
  }
  return out;
}

// What holds where all of them do. None: they hold from one size on and up to another.
std::optional<Threshold> narrowest(const std::vector<Threshold>& all) {
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

std::vector<Threshold> every_product(const std::vector<Prediction>& ops, const Setting& setting) {
  std::vector<const Prediction*> products;
  for (const Prediction& p : ops)
    if (p.work.contraction && p.peak) products.push_back(&p);
  std::vector<Threshold> out;
  if (products.size() < 2) return out;
  for (const std::string& dim : setting.order) {
    const auto all = of_dimension(products, dim);
    if (!all || all->empty()) continue;
    if (auto one = narrowest(*all)) out.push_back(*std::move(one));
  }
  return out;
}

}  // namespace ridge
