#include "ridge/ops/loops/model.h"

namespace ridge::ops {
namespace {

Error cpu_only_error() { return input_error("plain loops run only on a CPU", "--on cpu"); }

}  // namespace

Result<Forecast> forecast(const ConvLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const IndexLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const RunningLoops&, const DeviceNumbers&) { return cpu_only_error(); }

Result<Forecast> forecast(const QuantizeLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const ProductLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const TopLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const RoutedLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const ScanLoops&, const DeviceNumbers&) { return cpu_only_error(); }

}  // namespace ridge::ops
