// Fits the clocks and bandwidths of one Hopper, the lines of its machine file's [plan], to timings of plans there:
//
//   ridge bench plans --on cuda --shapes data/matmul_fit_shapes.csv --seconds 200 > timings.csv
//   build/fit_machine timings.csv
//
// One number after another is moved by a step as long as that brings predictions nearer to the timings, then by half
// the step. The error is the mean of |log(predicted / measured)| over plans within 1.5 times a product's fastest. Half
// of the products are fitted to, and the error is told of both halves. Kernels' numbers stay as they are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "ridge/measure/contest/plan_timings.h"
#include "ridge/ops/product/correction.h"

namespace ridge {
namespace {

using namespace ops;
using namespace ops::cuda;

struct Half {
  std::vector<TimedProduct> products;  // with the plans that count
};

std::vector<TimedPlan> plans_near_the_fastest(const TimedProduct& product) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const TimedPlan& t : product.plans) fastest = std::min(fastest, t.seconds);
  std::vector<TimedPlan> out;
  for (const TimedPlan& t : product.plans)
    if (t.config >= 0 && t.seconds < 1.5 * fastest) out.push_back(t);
  return out;
}

double error_of(const Half& half, const DeviceNumbers& device) {
  double sum = 0;
  int count = 0;
  for (const TimedProduct& product : half.products) {
    const MatmulCall call = timed_call(product.shape);
    for (const TimedPlan& t : product.plans) {
      const auto x = timed_work(call, device, t);
      if (!x) continue;
      const MatmulConfig& config = sm90_menu[static_cast<std::size_t>(t.config)];
      const SplitK split{x->plan.splits, x->plan.split_mode};
      const double form = x->plan.predicted_s;
      sum += std::abs(std::log(form * correction(features_of(config, x->work, split, device, form)) / t.seconds));
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

struct Number {
  const char *name, *unit;
  double DeviceNumbers::*value;
};
constexpr std::array fitted{Number{"clock_hz", "Hz", &DeviceNumbers::clock_hz},
                            Number{"busy_clock_hz", "Hz", &DeviceNumbers::busy_clock_hz},
                            Number{"memory_bytes_per_s", "B/s", &DeviceNumbers::memory_bytes_per_s},
                            Number{"l2_bytes_per_s", "B/s", &DeviceNumbers::l2_bytes_per_s}};

DeviceNumbers fit(const Half& half, DeviceNumbers device) {
  double error = error_of(half, device);
  for (double step = 0.08; step > 0.004; step /= 2)
    for (bool better = true; better;) {
      better = false;
      for (const Number& number : fitted)
        for (const double factor : {1 + step, 1 / (1 + step)}) {
          DeviceNumbers tried = device;
          tried.*number.value *= factor;
          const double e = error_of(half, tried);
          if (e >= error) continue;
          error = e;
          device = tried;
          better = true;
        }
    }
  return device;
}

int run(const char* path) {
  const auto timings = read_timings(path);
  const auto start = timings ? numbers_of(timings->device) : timings.error();
  if (!start) {
    std::fputs(start.error().text().c_str(), stderr);
    return 3;
  }
  std::array<Half, 2> halves;
  int timed = 0;
  for (std::size_t i = 0; i < timings->products.size(); ++i) {
    TimedProduct product = timings->products[i];
    product.plans = plans_near_the_fastest(product);
    timed += static_cast<int>(product.plans.size());
    halves[i % 2].products.push_back(std::move(product));
  }
  const DeviceNumbers device = fit(halves[0], *start);
  fmt::print(
      "# {}: {} timings of {} products. Before, predictions were off by {:.1f} %, of the products left out by "
      "{:.1f} %; now by {:.1f} % and {:.1f} %.\n[plan]\n",
      timings->device.device, timed, timings->products.size(), 100 * error_of(halves[0], *start),
      100 * error_of(halves[1], *start), 100 * error_of(halves[0], device), 100 * error_of(halves[1], device));
  for (const Number& number : fitted)
    fmt::print(
        "{} = {{ value = {:.4g}, unit = \"{}\", source = \"tools/fit_machine.cc, {}\", read = {}, origin = "
        "\"measured\" }}\n",
        number.name, device.*number.value, number.unit, path, timings->device.day);
  return 0;
}

}  // namespace
}  // namespace ridge

int main(int count, char** names) {
  if (count != 2) {
    std::fputs("usage: fit_machine TIMINGS.csv\n", stderr);
    return 2;
  }
  return ridge::run(names[1]);
}
