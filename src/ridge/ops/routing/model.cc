#include "ridge/ops/routing/model.h"

#include "ridge/ops/fitted.h"

namespace ridge::ops {

// There and back each row is read and written; on the way there every group's block goes by all indices, twice, and
// three kernels are launched.
Result<Forecast> forecast(const RoutedRows& r, const DeviceNumbers& device) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double rows = 2 * real(r.count) * real(r.width) * bits(r.values) / 8, places = real(r.places()) * 4;
  Forecast out = streamed("routed_rows", rows + places, 0, device);
  if (!r.back)
    out.seconds +=
        2 * device.launch_s + 2 * real(r.groups) * real(r.count) * bits(r.indices) / 8 / device.l2_bytes_per_s;
  return out;
}

}  // namespace ridge::ops
