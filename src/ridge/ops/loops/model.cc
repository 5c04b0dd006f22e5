#include "ridge/ops/loops/model.h"

namespace ridge::ops {
namespace {

Error cpu_only_error() { return input_error("plain loops run only on a CPU", "--on cpu"); }

}  // namespace

Result<Forecast> forecast(const ConvLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const GatherScatterLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const RunningSumLoops&, const DeviceNumbers&) { return cpu_only_error(); }

Result<Forecast> forecast(const QuantizeLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const ScaledProductLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const TopKLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const RoutedProductLoops&, const DeviceNumbers&) { return cpu_only_error(); }
Result<Forecast> forecast(const RecurrenceLoops&, const DeviceNumbers&) { return cpu_only_error(); }

}  // namespace ridge::ops
