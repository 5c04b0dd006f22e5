// Report of `ridge bench stream --on cuda`: one line per kernel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/bench/device_stream.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_device_stream(const DeviceStreamBenchmark& benchmark, const TextStyle& style = {});
nlohmann::ordered_json device_stream_json(const DeviceStreamBenchmark& benchmark);

}  // namespace ridge
