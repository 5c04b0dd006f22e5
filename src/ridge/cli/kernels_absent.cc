// Stubs for the program without kernels (build/analysis/ridge), which the launcher builds for verbs that only analyze.
// It has no planner either, because the planner asks the kernels for their limits. The launcher builds the whole
// program when a command needs one of these; a missing stub is a link error. The options of the verbs are those of the
// whole program (kernel_verbs.cc).
#include <fmt/format.h>

#include "ridge/api/facade.h"
#include "ridge/cli/kernel_verbs.h"
#include "ridge/cli/output.h"
#include "ridge/plan/kernel_timeline.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

Error no_kernels_error(std::string_view what) {
  return absent_error(fmt::format("{} needs the kernels, and this program was built without them", what),
                      "start ./ridge, which builds what a command needs");
}

}  // namespace

Result<Machine> find_device_machine() { return no_kernels_error("--on cuda"); }
Result<PlannedProgram> predict_program(const Program&, const Explanation&, const PlanRequest&) {
  return no_kernels_error("--plan");
}
Result<KernelTimeline> make_kernel_timeline(const KernelTimelineOptions&) {
  return no_kernels_error("simulate kernel");
}

Result<AdviceList> make_advice(const Program&, const Explanation&, const PlanRequest&) {
  return no_kernels_error("advise");
}
std::string format_machine_lines(const Calibration&, const std::string&, const std::string&) { return {}; }

namespace api {
Result<Report> run(const Request&, const RunRequest&) { return no_kernels_error("run"); }
std::vector<SuggestedStep> to_suggested_steps(const Request&, const AdviceList&) { return {}; }
Result<Stripes> predict_stripes(const SweepRequest&, const StripesRequest&) { return no_kernels_error("--stripes"); }
}  // namespace api

namespace cli {
Result<int> run_program(RunArgs&) { return no_kernels_error("run"); }
Result<int> run_advise(AdviseArgs&) { return no_kernels_error("advise"); }
Result<int> run_probe(ProbeArgs&) { return no_kernels_error("probe"); }
Result<int> run_calibrate(CalibrateArgs&) { return no_kernels_error("calibrate"); }
Result<int> run_bench(BenchArgs&) { return no_kernels_error("bench"); }
Result<int> run_kernels(KernelsArgs&) { return no_kernels_error("kernels"); }
}  // namespace cli

}  // namespace ridge
