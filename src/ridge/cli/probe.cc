// ridge probe: measures this machine.
#include <unistd.h>

#include "ridge/base/file.h"
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/output.h"

namespace ridge::cli {

Result<int> run_probe(ProbeArgs& args) {
  if (const auto bar = progress_bar())
    args.options.progress = [bar](const ProbeProgress& p) {
      bar(static_cast<double>(p.done) / std::max(p.total, 1), std::string(p.quantity));
      return true;
    };
  else if (run_target_of(args.on) == RunTarget::cpu)
    (void)write_all(STDERR_FILENO, "ridge: measuring peaks and bandwidths; this takes less than a minute\n");
  RIDGE_TRY(report, run_target_of(args.on) == RunTarget::cuda ? probe_cuda(args.options) : probe_cpu(args.options));
  end_progress();
  return print_result(args.format, render_probe_text(report, text_style()), render_probe_json(report), "measured");
}

}  // namespace ridge::cli
