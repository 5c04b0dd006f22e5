#include "ridge/roofline/sizes/products.h"

#include <algorithm>

namespace ridge {
namespace {

bool against_memory(const Threshold& t) { return t.roofs[0] == Limiter::compute && t.roofs[1] == Limiter::memory; }

// The thresholds of one dimension, an operation each; none: an operation with the dimension has not exactly one.
std::optional<std::vector<Threshold>> of_dimension(const std::vector<const Prediction*>& products,
                                                   const std::string& dim) {
  std::vector<Threshold> out;
  for (const Prediction* p : products) {
    std::vector<Threshold> here;
    for (const Threshold& t : p->thresholds)
      if (t.dim == dim && against_memory(t)) here.push_back(t);
    if (here.size() > 1) return std::nullopt;
    if (!here.empty())
      out.push_back(std::move(here[0]));
    else if (!p->limiter || *p->time_math_s < *p->time_memory_s)
      return std::nullopt;
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
