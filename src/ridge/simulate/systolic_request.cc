#include "ridge/simulate/systolic_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ridge/base/file.h"
#include "ridge/simulate/scalesim_files.h"

namespace ridge {
namespace {

constexpr const char* example = "ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256";

Result<ScaleSimConfig> read_config(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  auto config = parse_scalesim_config(text, path);
  if (!config || config->not_simulated.empty()) return config;
  return input_error(fmt::format("{} requests {}, which is not simulated", path, config->not_simulated.front()),
                     "switch it off in the file");
}

// Parses one number for all three scratchpads, or one for each.
Status set_pad_field(std::string_view text, std::string_view option, Scratchpads& pads,
                     std::int64_t Scratchpad::*field) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::int64_t number = 0;
    const auto [stopped, failed] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (failed != std::errc() || stopped != text.data() + end) number = 0;
    numbers.push_back(number);
    begin = end + 1;
  }
  if (numbers.empty()) return Done{};
  const bool is_valid_count = numbers.size() == 1 || numbers.size() == 3;
  if (!is_valid_count || std::any_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n < 1; }))
    return usage_error(
        fmt::format("expected one or three whole numbers of at least 1 after {}, found '{}'", option, text),
        fmt::format("{} 16, or {} 16,16,32 for a, b and c", option, option));
  pads.a.*field = numbers.front();
  pads.b.*field = numbers[numbers.size() / 2];
  pads.c.*field = numbers.back();
  return Done{};
}

Status check_request(const SystolicRequest& r) {
  if (!r.config.empty() && (r.rows || r.cols || !r.dataflow.empty()))
    return usage_error("expected --config without --rows, --cols and --dataflow", "the file holds all three");
  if (r.config.empty() && (!r.rows || !r.cols))
    return usage_error("expected --rows and --cols, or --config FILE.cfg", example);
  if (!r.topology.empty() && r.product)
    return usage_error("expected either M N K or --topology, found both", "the file holds the layers' sizes");
  if (r.topology.empty() && !r.product)
    return usage_error("expected M N K, --table or --topology, found none", example);
  return Done{};
}

// Returns a task with array and scratchpads, but without a product.
Result<SystolicTask> make_task(const SystolicRequest& r) {
  SystolicTask task;
  Scratchpads pads;
  bool has_stalls = !r.bandwidth.empty();
  if (!r.config.empty()) {
    RIDGE_TRY(config, read_config(r.config));
    task.array = config.array;
    pads = config.scratchpads;
    has_stalls = has_stalls || config.user_bandwidth;
  } else {
    task.array.rows = *r.rows;
    task.array.cols = *r.cols;
    RIDGE_TRY(dataflow, parse_dataflow(r.dataflow.empty() ? "ws" : r.dataflow));
    task.array.dataflow = dataflow;
  }
  task.array.preload = r.preload;
  pads.charges_waits_twice = !r.wait_once;
  RIDGE_TRY_STATUS(set_pad_field(r.bandwidth, "--bandwidth", pads, &Scratchpad::bandwidth));
  RIDGE_TRY_STATUS(set_pad_field(r.sram, "--sram", pads, &Scratchpad::words));
  if (!has_stalls && (!r.sram.empty() || r.wait_once))
    return usage_error("expected --bandwidth together with --sram and --wait-once", "without it the array never waits");
  if (has_stalls) task.scratchpads = pads;
  return task;
}

}  // namespace

Result<std::vector<SystolicRun>> run_systolic(const SystolicRequest& request) {
  RIDGE_TRY_STATUS(check_request(request));
  RIDGE_TRY(array, make_task(request));
  std::vector<SystolicTask> tasks;
  if (request.product) {
    tasks.push_back(array);
    tasks.back().product = *request.product;
  } else {
    RIDGE_TRY(text, read_file(request.topology));
    RIDGE_TRY(layers, parse_topology(text, request.topology));
    for (const TopologyLayer& layer : layers) {
      tasks.push_back(array);
      tasks.back().name = layer.name;
      tasks.back().product = layer.product;
      tasks.back().copies = layer.copies;
      tasks.back().convolution = layer.convolution;
    }
  }
  std::vector<SystolicRun> runs;
  for (const SystolicTask& task : tasks) {
    auto run = run_systolic(task);
    if (!run && !task.name.empty()) {
      Error error = run.error();
      error.message = fmt::format("layer '{}': {}", task.name, error.message);
      return error;
    }
    RIDGE_TRY_STATUS(run);
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace ridge
