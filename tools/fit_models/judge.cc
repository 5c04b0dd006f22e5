#include "fit_models/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::fit {

using namespace ops::cuda;

void judge(const Samples& samples, int device, int fold, const std::vector<Learned>& all,
           const std::vector<RegressionTree>& grown, Verdict& verdict) {
  for (std::size_t i = 0, end = 0; i < all.size(); i = end) {
    while (end < all.size() && samples.all[end].product == samples.all[i].product) ++end;
    if (samples.all[i].fold != fold || samples.all[i].device != device) continue;
    std::size_t by_form = i, by_both = i, fastest = i;
    double soonest = 0;
    for (std::size_t j = i; j < end; ++j) {
      if (samples.all[j].measured_s < samples.all[fastest].measured_s) fastest = j;
      if (all[j].form_s < all[by_form].form_s) by_form = j;
      const double both = all[j].form_s * correction_factor(grown, all[j].bins);
      if (j > i && both >= soonest) continue;
      soonest = both;
      by_both = j;
    }
    const double best = samples.all[fastest].log_measured;
    verdict.form += samples.all[by_form].log_measured - best;
    verdict.both += samples.all[by_both].log_measured - best;
    verdict.ratios.push_back(samples.all[by_both].measured_s / soonest);
  }
}

std::string text_of(Verdict verdict) {
  std::vector<double> off;
  double sum = 0;
  for (const double x : verdict.ratios) {
    off.push_back(std::abs(1 / x - 1));
    sum += off.back();
  }
  const std::size_t n = off.size();
  if (n == 0) return "no products";
  std::sort(off.begin(), off.end());
  std::sort(verdict.ratios.begin(), verdict.ratios.end());
  const double products = static_cast<double>(n);
  return fmt::format(
      "{} products: loss of the choice {:.2f} % by the form, {:.2f} % by form and trees; error of the chosen "
      "plan's time: mean {:.1f} %, median {:.1f} %, 90th percentile {:.1f} %; measured over "
      "predicted {:.2f} to {:.2f}",
      n, 100 * verdict.form / products, 100 * verdict.both / products, 100 * sum / products, 100 * off[n / 2],
      100 * off[n * 9 / 10], verdict.ratios[n / 20], verdict.ratios[n * 19 / 20]);
}

}  // namespace ridge::fit
