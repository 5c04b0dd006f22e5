// The command line: parses the verb and its options, calls the API and prints the result.
#include <fmt/format.h>
#include <unistd.h>

#include <new>

#include "ridge/base/file.h"
#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"
#include "ridge/report/schema.h"

namespace ridge::cli {
namespace {

constexpr const char* top_level_examples = R"(Examples:
  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e
  ridge explain examples/mlp.ridge --on h100 --json
  ridge run examples/mlp.ridge --svg mlp.svg
  ridge probe
  ridge machines h100
)";

int run_command_line(int argc, char** argv) {
  int code = 0;
  CLI::App app("Computes how fast a tensor program can run on a machine and what limits it; plans and runs its kernels",
               "ridge");
  app.footer(top_level_examples);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this page");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ridge {} ({})", version(), commit()), "Print the version and commit");
  add_explain(app, code);
  add_run(app, code);
  add_advise(app, code);
  add_sweep(app, code);
  add_shard(app, code);
  add_simulate(app, code);
  add_model(app, code);
  add_trace(app, code);
  add_probe(app, code);
  add_calibrate(app, code);
  add_bench(app, code);
  add_kernels(app, code);
  add_machines(app, code);
  add_help(app, code);
  add_manual(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const bool is_verb_missing = app.get_subcommands().empty() && app.remaining_size() > 0;  // ridge explian --help
    return is_verb_missing ? print_error(unexpected_argument_error(app)) : print_result(app.help());
  } catch (const SchemaRequest& request) {
    return print_result(verb_schema(request.verb));
  } catch (const CLI::CallForVersion& request) {
    return print_result(std::string(request.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    if (argc == 1) (void)write_all(STDERR_FILENO, app.help() + "\n");
    return print_error(to_error(app, error));
  }
  return code;
}

// Converts exceptions to messages. An exception here is a bug of ridge or a lack of memory.
int run_guarded(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    return print_error({.kind = ErrorKind::finding,
                        .message = "out of memory",
                        .hint = "use smaller dimensions or a smaller program"});
  } catch (const std::exception& error) {
    return print_error({.kind = ErrorKind::finding,
                        .message = fmt::format("unexpected: {}", error.what()),
                        .hint = "this is a bug in ridge: please report the command and this line"});
  }
}

}  // namespace
}  // namespace ridge::cli

int main(int argc, char** argv) {
  ridge::cli::handle_signals();
  return ridge::cli::run_guarded(argc, argv);
}
