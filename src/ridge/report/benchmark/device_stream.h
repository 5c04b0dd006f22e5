// Report of `ridge bench stream --on cuda`: one line per kernel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/measure/benchmark/device_stream.h"

namespace ridge {

std::string format_device_stream(const DeviceStreamBenchmark& benchmark);
nlohmann::ordered_json device_stream_json(const DeviceStreamBenchmark& benchmark);

}  // namespace ridge
