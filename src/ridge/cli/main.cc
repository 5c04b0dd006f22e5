// The command line: reads the verb and its options, hands them to the facade, prints what comes back.
#include <fmt/format.h>

#include <new>

#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/schema.h"

namespace ridge::cli {
namespace {

constexpr const char* about = R"(Examples:
  ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e
  ridge explain examples/mlp.ridge --on h100 --json
  ridge run examples/mlp.ridge --svg mlp.svg
  ridge probe
  ridge machines h100

Know the roof. Reach it. Show the difference.
)";

// A verb's examples stand before its options.
class ExamplesFirst : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const std::string examples = app->get_footer();
    return (examples.empty() ? "" : examples + "\n") + CLI::Formatter::make_help(app, name, mode);
  }
  std::string make_footer(const CLI::App*) const override { return "\n"; }
};

int start(int argc, char** argv) {
  int code = 0;
  CLI::App app(about, "ridge");
  app.formatter(std::make_shared<ExamplesFirst>());
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ridge {} ({})", version(), commit()), "Print version and commit");
  add_explain(app, code);
  add_run(app, code);
  add_advise(app, code);
  add_sweep(app, code);
  add_shard(app, code);
  add_simulate(app, code);
  add_probe(app, code);
  add_calibrate(app, code);
  add_bench(app, code);
  add_kernels(app, code);
  add_machines(app, code);
  add_manual(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const bool no_verb = app.get_subcommands().empty() && app.remaining_size() > 0;  // ridge explian --help
    return no_verb ? fail(unexpected(app)) : print(app.help());
  } catch (const SchemaAsked& request) {
    return print(schema_of(request.verb));
  } catch (const CLI::CallForVersion& request) {
    return print(std::string(request.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    return fail(as_error(app, error));
  }
  return code;
}

// The last place where an exception can be said in words; whatever comes here is our bug or the system's want.
int guarded(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail({.kind = ErrorKind::finding,
                 .message = "the system gave no more memory",
                 .hint = "give smaller dimensions, or a smaller program"});
  } catch (const std::exception& error) {
    return fail({.kind = ErrorKind::finding,
                 .message = fmt::format("unexpected: {}", error.what()),
                 .hint = "this is a bug of ridge: please report the command and this line"});
  }
}

}  // namespace
}  // namespace ridge::cli

int main(int argc, char** argv) {
  ridge::cli::set_signals();
  return ridge::cli::guarded(argc, argv);
}
