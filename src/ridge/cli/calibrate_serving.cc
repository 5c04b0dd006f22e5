// ridge calibrate --serving: fits the constants of served times to measured points of an engine.
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/parts/serving_fit.h"

namespace ridge::cli {

Result<int> run_serving_fit(const CalibrateArgs& args) {
  RIDGE_TRY_STATUS(check_combined_options(*args.verb, "--serving", "--out"));
  if (!args.request.path.empty())
    return usage_error(fmt::format("expected --serving without FILE, found '{}'", args.request.path),
                       "timings of kernels and points of an engine are fitted one after the other");
  RIDGE_TRY(fit, api::fit_serving(args.serving, args.request.out));
  return print_result(render_text(fit, args.request.out, text_style()));
}

}  // namespace ridge::cli
