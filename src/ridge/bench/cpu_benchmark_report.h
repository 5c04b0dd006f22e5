// Report of `ridge bench matmul` on a CPU: one line per product, then the summaries.
#pragma once

#include <string>

#include "ridge/bench/cpu_benchmark.h"
#include "ridge/report/table.h"

namespace ridge {

std::string format_cpu_benchmark(const CpuBenchmark& benchmark, const TextStyle& style = {});
// Returns JSON of schema "ridge.contest/1". Bytes of a library's description that are not UTF-8 are replaced.
std::string cpu_benchmark_json(const CpuBenchmark& benchmark);

}  // namespace ridge
