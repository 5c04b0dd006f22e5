// ridge advise: changes that make a program faster, their predicted gains, and runs that confirm them.
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/advice.h"

namespace ridge::cli {

int run_advise(AdviseArgs& args) {
  if (const Status valid = read_positionals(args.request_args, "advise"); !valid) return print_error(valid.error());
  if (!args.confirm)
    if (const Status valid = check_required_option(*args.verb, "--runs --threads", "--confirm"); !valid)
      return print_error(valid.error());
  const auto request = to_request(args.request_args);
  if (!request) return print_error(request.error());
  args.run_request.progress = progress_bar();
  const auto found = api::advise(*request, args.confirm ? std::optional(args.run_request) : std::nullopt);
  end_progress();
  return found ? print_result(args.format, render_text(*found, text_style()), render_json(*found), "advice")
               : print_error(found.error());
}

}  // namespace ridge::cli
