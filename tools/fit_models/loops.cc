#include "fit_models/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "fit_models/programs.h"
#include "ridge/base/file.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/loops/model.h"
#include "ridge/ops/product/model.h"

namespace ridge::fit {
namespace {

using namespace ops;

constexpr std::string_view loops_folder = "data/timings/loops", loops_columns = "kind,program,dtype,sizes,us";

std::string loops_path(const std::string& root) { return fmt::format("{}/{}/h200_sxm.csv", root, loops_folder); }

Result<decltype(PlanStep::kernel)> read_kernel(const std::string& root, const CsvLine& line) {
  const std::string path = fmt::format("{}/{}/{}.ridge", root, loops_folder, line.cells[1].text);
  RIDGE_TRY(plan, read_device_plan(path, line.cells[2].text, line.cells[3].text));
  if (plan.steps.size() == 1) return plan.steps[0].kernel;
  return input_error(
      fmt::format("'{}' with {}: expected one kernel, found {}", path, line.cells[3].text, plan.steps.size()),
      "ridge explain PROGRAM --on h200 --plan");
}

// Returns the time of the fastest plan that splits keys, or that does not: with other constants another one may be
// chosen than the one that was timed.
double predict_attention_seconds(const AttentionProblem& p, bool splits_keys, const DeviceNumbers& device) {
  double out = std::numeric_limits<double>::infinity();
  for (const cuda::AttentionPlan& plan : cuda::list_plans(p, device))
    if ((plan.key_splits > 1) == splits_keys) out = std::min(out, plan.predicted_s);
  return out;
}

double predict_seconds(const TimedLoop& timed, const DeviceNumbers& device) {
  if (const auto* const attention = std::get_if<AttentionProblem>(&timed.kernel))
    return predict_attention_seconds(*attention, timed.kind == "split_attention", device);
  double out = 0;
  const auto predict = [&](const auto& loops) {
    if constexpr (requires { ops::forecast(loops, device); }) out = ops::forecast(loops, device)->seconds;
  };
  std::visit(predict, timed.kernel);
  return out;
}

}  // namespace

Result<std::string> read_loops_day(const std::string& root) {
  RIDGE_TRY(text, read_file(loops_path(root)));
  RIDGE_TRY(file, parse_fitted_file(text, loops_path(root), loops_columns));
  return file.properties["day"];
}

Result<std::vector<TimedLoop>> read_loops(const std::string& root, const std::string& device_name) {
  const std::string path = loops_path(root);
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(file, parse_fitted_file(text, path, loops_columns));
  if (file.properties["device"] != device_name)
    return input_error(
        fmt::format("'{}': expected timings of '{}', found '{}'", path, device_name, file.properties["device"]));
  std::vector<TimedLoop> out;
  std::map<std::string, std::vector<std::string>> sites;  // Of a kind, in the order of the file
  for (const CsvLine& line : file.lines) {
    RIDGE_TRY(kernel, read_kernel(root, line));
    RIDGE_TRY(us, parse_cell(file, line, 4));
    std::vector<std::string>& known = sites[line.cells[0].text];
    const std::string site = line.cells[1].text + " " + line.cells[3].text;
    const auto found = std::find(known.begin(), known.end(), site);
    const auto number = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) known.push_back(site);
    out.push_back({line.cells[0].text, kernel, 1e-6 * us, number});
  }
  return out;
}

std::vector<double KernelConstants::*> list_loop_constants(const std::string& kind) {
  using C = KernelConstants;
  if (kind == "gather") return {&C::gather_wait_cycles, &C::gather_item_instructions};
  if (kind == "scatter") return {&C::scatter_wait_cycles, &C::scatter_time_factor};
  if (kind == "running_sum") return {&C::running_sum_wait_cycles, &C::sum_along_factor, &C::sum_across_factor};
  if (kind == "recurrence") return {&C::recurrence_load_cycles, &C::recurrence_access_cycles};
  if (kind == "topk_select") return {&C::select_wait_cycles, &C::select_key_cycles};
  if (kind == "sort_lines") return {&C::sort_line_wait_cycles};
  if (kind == "sort") return {&C::sort_launch_wait_cycles};
  if (kind == "direct_convolution") return {&C::column_load_instructions, &C::column_row_instructions};
  if (kind == "depthwise_convolution") return {&C::depthwise_factor};
  if (kind == "batched_gemv") return {&C::gemv_wait_cycles};
  if (kind == "routed") return {&C::routed_time_factor};
  if (kind == "rotary") return {&C::rotary_wait_cycles, &C::rotary_time_factor};
  return {};
}

std::vector<std::string> list_loop_kinds(const std::vector<TimedLoop>& timings) {
  std::vector<std::string> out;
  for (const TimedLoop& x : timings)
    if (std::find(out.begin(), out.end(), x.kind) == out.end()) out.push_back(x.kind);
  return out;
}

std::size_t count_loop_sites(const std::vector<TimedLoop>& timings, const std::string& kind) {
  std::size_t out = 0;
  for (const TimedLoop& x : timings)
    if (x.kind == kind) out = std::max(out, x.site + 1);
  return out;
}

std::vector<double> loop_ratios(const std::vector<TimedLoop>& timings, const std::string& kind, LoopSites sites,
                                const DeviceNumbers& device) {
  std::vector<double> out;
  for (const TimedLoop& x : timings)
    if (x.kind == kind && (sites == LoopSites::all || x.is_held_out() == (sites == LoopSites::held_out)))
      out.push_back(x.measured_s / predict_seconds(x, device));
  return out;
}

}  // namespace ridge::fit
