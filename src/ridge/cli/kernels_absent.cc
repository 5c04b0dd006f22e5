// Stubs for the program without kernels (build/analysis/ridge), which the launcher builds for verbs that only analyze.
// It has no planner either, because the planner asks the kernels for their limits. The launcher builds the whole
// program when a command needs one of these; a missing stub is a link error.
#include <fmt/format.h>

#include "ridge/api/facade.h"
#include "ridge/cli/output.h"
#include "ridge/measure/device_machine.h"
#include "ridge/plan/kernel_timeline.h"

namespace ridge {
namespace {

Error no_kernels_error(std::string_view what) {
  return absent_error(fmt::format("{} needs the kernels, and this program was built without them", what),
                      "start ./ridge, which builds what a command needs");
}

void add_absent_verb(CLI::App& app, int& code, const char* name, const char* description) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->allow_extras();
  verb->callback([name, &code] { code = cli::print_error(no_kernels_error(name)); });
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
void add_run(CLI::App& app, int& code) { add_absent_verb(app, code, "run", "Run a program, time and check it"); }
void add_advise(CLI::App& app, int& code) { add_absent_verb(app, code, "advise", "Find changes that make it faster"); }
void add_probe(CLI::App& app, int& code) { add_absent_verb(app, code, "probe", "Measure this machine's peaks"); }
void add_calibrate(CLI::App& app, int& code) { add_absent_verb(app, code, "calibrate", "Fit a library's model"); }
void add_bench(CLI::App& app, int& code) { add_absent_verb(app, code, "bench", "Compare with other libraries"); }
void add_kernels(CLI::App& app, int& code) { add_absent_verb(app, code, "kernels", "List the CUDA kernels"); }
}  // namespace cli

}  // namespace ridge
