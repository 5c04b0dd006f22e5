// ridge calibrate: fits a library's parameters on a machine to timings, or this CPU's parameters to a benchmark run.
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/output.h"

namespace ridge::cli {

Result<int> run_calibrate(CalibrateArgs& args) {
  args.request.on = args.on;
  if (!args.dtype.empty()) {
    RIDGE_TRY(dtype, parse_dtype_argument(args.dtype));
    args.request.dtype = dtype;
  }
  if (const auto bar = progress_bar(); bar && args.request.path.empty()) args.request.progress = bar;
  const auto found = api::calibrate(args.request);
  end_progress();
  if (!found) return found.error();
  return print_result(args.format, render_text(*found, text_style()), render_json(*found), "");
}

}  // namespace ridge::cli
