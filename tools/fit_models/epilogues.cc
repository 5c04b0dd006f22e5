#include "fit_models/epilogues.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fit_models/programs.h"
#include "ridge/base/file.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/product/time/epilogue_seconds.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

constexpr std::string_view folder = "data/timings/fused", columns = "program,sizes,one_kernel,two_kernels";

Result<MatmulCall> read_call(const std::string& root, const std::string& name, const std::string& sizes) {
  const std::string path = fmt::format("{}/{}/{}.ridge", root, folder, name);
  RIDGE_TRY(plan, read_device_plan(path, "", sizes));
  for (const PlanStep& each : plan.steps)
    if (const auto* fused = std::get_if<FusedMatmul>(&each.kernel)) {
      const FusedCall call = make_fused_call(*fused);
      if (const auto* product = std::get_if<MatmulCall>(&call)) return *product;
    }
  return input_error(fmt::format("'{}' with {}: expected a product with an epilogue as one kernel", path, sizes),
                     "ridge explain PROGRAM --on h200 --plan");
}

std::string timings_path(const std::string& root) { return fmt::format("{}/{}/h200_sxm.csv", root, folder); }

}  // namespace

Result<std::string> read_epilogue_day(const std::string& root) {
  RIDGE_TRY(text, read_file(timings_path(root)));
  RIDGE_TRY(file, parse_fitted_file(text, timings_path(root), columns));
  return file.properties["day"];
}

Result<std::vector<TimedEpilogue>> read_epilogues(const std::string& root, const std::string& device_name,
                                                  const DeviceNumbers& device) {
  const std::string path = timings_path(root);
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(file, parse_fitted_file(text, path, columns));
  if (file.properties["device"] != device_name)
    return input_error(
        fmt::format("'{}': expected timings of '{}', found '{}'", path, device_name, file.properties["device"]));
  std::vector<TimedEpilogue> out;
  std::vector<std::pair<std::int64_t, std::int64_t>> sites;  // in the order of the file; every other one is held out
  for (const CsvLine& line : file.lines) {
    RIDGE_TRY(call, read_call(root, line.cells[0].text, line.cells[1].text));
    RIDGE_TRY(us, parse_cell(file, line, 2));
    const std::pair site(call.problem.size.n, call.problem.size.k);
    const auto found = std::find(sites.begin(), sites.end(), site);
    const auto number = found - sites.begin();
    if (found == sites.end()) sites.push_back(site);
    out.push_back({call, choose_plan(call, plan_workspace_bytes, device), 1e-6 * us, number % 2 == 1});
  }
  return out;
}

std::vector<double> epilogue_ratios(const std::vector<TimedEpilogue>& timings, bool held_out,
                                    const DeviceNumbers& device) {
  std::vector<double> out;
  for (const TimedEpilogue& x : timings)
    if (x.is_held_out == held_out)
      out.push_back(x.measured_s / (x.plan.predicted_s + predict_epilogue_seconds(x.call, x.plan, device)));
  return out;
}

}  // namespace ridge::fit
