#include "fit_models/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/file.h"
#include "ridge/base/fitted_file.h"

namespace ridge::fit {

Result<std::vector<TimedLayer>> read_layers(const std::string& root, const std::string& device_name) {
  const std::string path = root + "/data/timings/layers/h200_sxm.csv";
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(file, parse_fitted_file(text, path, "model,sequences,kernels,alone,whole"));
  if (file.properties["device"] != device_name)
    return input_error(
        fmt::format("'{}': expected timings of '{}', found '{}'", path, device_name, file.properties["device"]));
  std::vector<TimedLayer> out;
  for (const CsvLine& line : file.lines) {
    RIDGE_TRY(kernels, parse_cell(file, line, 2));
    RIDGE_TRY(alone, parse_cell(file, line, 3));
    RIDGE_TRY(whole, parse_cell(file, line, 4));
    out.push_back({kernels, 1e-6 * alone, 1e-6 * whole, out.size() % 2 == 1});
  }
  if (out.empty()) return input_error(fmt::format("'{}': expected at least one layer", path));
  return out;
}

double fit_kernel_switch(const std::vector<TimedLayer>& layers) {
  std::vector<double> seconds;
  for (const TimedLayer& x : layers)
    if (!x.is_held_out) seconds.push_back((x.whole_s - x.alone_s) / x.kernels);
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  double sum = 0, largest = 0;
  int count = 0;
  for (const TimedLayer& x : layers) {
    if (!x.is_held_out) continue;
    const double error = 100 * std::abs((x.alone_s + x.kernels * *middle) / x.whole_s - 1);
    sum += error;
    largest = std::max(largest, error);
    ++count;
  }
  fmt::print("Between kernels {:.2f} us; the sum is off by {:.1f} % on {} held-out layers, at most {:.1f} %.\n",
             1e6 * *middle, count > 0 ? sum / count : 0, count, largest);
  return *middle;
}

}  // namespace ridge::fit
