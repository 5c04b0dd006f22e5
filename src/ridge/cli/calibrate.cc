// ridge calibrate: fits a library's parameters on a machine to timings, or this CPU's parameters to a benchmark run.
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/output.h"

namespace ridge::cli {

int run_calibrate(CalibrateArgs& args) {
  args.request.on = args.on;
  if (!args.dtype.empty()) {
    const auto dtype = parse_dtype_argument(args.dtype);
    if (!dtype) return print_error(dtype.error());
    args.request.dtype = *dtype;
  }
  if (const auto bar = progress_bar(); bar && args.request.path.empty()) args.request.progress = bar;
  const auto found = api::calibrate(args.request);
  end_progress();
  return found ? print_result(args.format, render_text(*found, text_style()), render_json(*found), "")
               : print_error(found.error());
}

}  // namespace ridge::cli
