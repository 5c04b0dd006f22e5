// ridge advise: changes that make a program faster, their predicted gains, and runs that confirm them.
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/advice.h"

namespace ridge::cli {

Result<int> run_advise(AdviseArgs& args) {
  RIDGE_TRY_STATUS(read_positionals(args.request_args, "advise"));
  if (!args.confirm) RIDGE_TRY_STATUS(check_required_option(*args.verb, "--runs --threads", "--confirm"));
  RIDGE_TRY(request, to_request(args.request_args));
  args.run_request.progress = progress_bar();
  const auto found = api::advise(request, args.confirm ? std::optional(args.run_request) : std::nullopt);
  end_progress();
  if (!found) return found.error();
  return print_result(args.format, render_text(*found, text_style()), render_json(*found), "advice");
}

}  // namespace ridge::cli
