// Report of `ridge bench stream` on a CPU: one line per kernel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/bench/stream_benchmark.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_stream_benchmark(const StreamBenchmark& benchmark, const TextStyle& style = {});
nlohmann::ordered_json stream_benchmark_json(const StreamBenchmark& benchmark);

}  // namespace ridge
