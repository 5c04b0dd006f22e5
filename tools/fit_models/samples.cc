#include "fit_models/samples.h"

#include <algorithm>
#include <limits>

#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

// A single timing of a product is the chosen plan of a benchmark; its weight is that of a fastest plan.
double weight_of(double slower, std::size_t plans) {
  if (plans == 1) return 3;
  if (slower < 1.2) return 1;
  return slower < 1.5 ? 0.4 : 0.1;
}

void add(const TimedProduct& product, int device, const ProductModel& model, Samples& to) {
  const MatmulCall call = make_timed_call(product.shape);
  const DeviceNumbers& numbers = to.devices[static_cast<std::size_t>(device)].numbers;
  const std::size_t before = to.all.size();
  double fastest = std::numeric_limits<double>::infinity();
  for (const TimedPlan& t : product.plans) {
    const auto few = t.config < 0 ? make_gemv_work(call) : std::nullopt;
    if (few) to.few_rows.push_back({device, *few, t.seconds});
    const auto x = t.config < 0 ? std::nullopt : plan_timed_work(call, numbers, t, model);
    if (!x) continue;
    Sample y;
    y.product = to.products;
    y.device = device;
    y.fold = static_cast<int>(static_cast<std::size_t>(product.shape.size.n * 7919 + product.shape.size.k * 104729) /
                              64 % folds);
    y.config = &sm90_kernel_configs[static_cast<std::size_t>(t.config)];
    y.work = x->work;
    y.split = {x->plan.splits, x->plan.split_mode};
    y.measured_s = t.seconds;
    y.log_measured = base::log(t.seconds);
    fastest = std::min(fastest, t.seconds);
    to.all.push_back(y);
  }
  for (std::size_t i = before; i < to.all.size(); ++i)
    to.all[i].weight = weight_of(to.all[i].measured_s / fastest, to.all.size() - before);
  to.products += to.all.size() > before;
}

// Returns the index of the device, which is added if it is new.
Result<int> device_of(const TimedDevice& timed, const std::string& path, Samples& to) {
  for (std::size_t i = 0; i < to.devices.size(); ++i)
    if (to.devices[i].as_timed.device == timed.device) {
      to.devices[i].files += " " + path;
      return static_cast<int>(i);
    }
  const auto numbers = timed_device_numbers(timed);
  if (!numbers) return numbers.error();
  to.devices.push_back({timed, *numbers, path});
  return static_cast<int>(to.devices.size()) - 1;
}

}  // namespace

Result<Samples> read_samples(const std::vector<std::string>& paths, const ProductModel& model) {
  Samples out;
  for (const std::string& path : paths) {
    const auto timings = read_timings(path);
    if (!timings) return timings.error();
    const auto device = device_of(timings->device, path, out);
    if (!device) return device.error();
    const std::size_t before = out.all.size();
    for (const TimedProduct& product : timings->products) add(product, *device, model, out);
    out.devices[static_cast<std::size_t>(*device)].timings += static_cast<int>(out.all.size() - before);
  }
  return out;
}

}  // namespace ridge::fit
