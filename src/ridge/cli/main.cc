// The command line: reads the verb and its options, hands them to the facade, prints what comes back.
#include <fmt/format.h>

#include <new>

#include "ridge/base/text.h"
#include "ridge/cli/door.h"

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

std::string suggestion(const CLI::App& app, const std::string& typed) {
  std::vector<std::string> candidates;
  if (!typed.starts_with('-'))
    for (const CLI::App* verb : app.get_subcommands({})) candidates.push_back(verb->get_name());
  if (typed.starts_with('-'))
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      for (const std::string& name : option->get_snames()) candidates.push_back("-" + name);
    }
  const std::string near = nearest(typed.substr(0, typed.find('=')), candidates);
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

// The verb that was typed, or its own verb: simulate systolic.
const CLI::App& innermost(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  return verbs.empty() ? app : innermost(*verbs.front());
}

// "simulate systolic"; empty for ridge itself.
std::string path_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string before = path_of(*app.get_parent());
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

// "explain, run or probe"
std::string verb_names(const CLI::App& app) {
  std::string out;
  const auto verbs = app.get_subcommands({});
  for (std::size_t i = 0; i < verbs.size(); ++i)
    out += (i == 0 ? "" : i + 1 < verbs.size() ? ", " : " or ") + verbs[i]->get_name();
  return out;
}

Error unexpected(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  const CLI::App& where = innermost(app);
  std::vector<std::string> rest = where.remaining();
  if (rest.empty()) rest = app.remaining(true);
  const std::string typed = rest.empty() ? "" : rest.front();
  const std::string near = suggestion(where, typed);
  if (typed.starts_with('-') && typed != "-")
    return usage_error(fmt::format("unknown option '{}'", typed), near.empty() ? "ridge --help" : near);
  if (&where == &app) return usage_error(fmt::format("unknown verb '{}'; expected {}", typed, verb_names(app)), near);
  return usage_error(fmt::format("unexpected argument '{}' after {}", typed, path_of(where)),
                     verbs.front() == &where ? "a program with spaces stands in quotes"
                                             : fmt::format("ridge {} --help", path_of(where)));
}

Error as_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto verbs = app.get_subcommands();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (extra || (verbs.empty() && app.remaining_size() > 0)) return unexpected(app);
  if (verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return usage_error(fmt::format("expected a verb: {}; found none", verb_names(app)), "ridge --help");
  const std::string verb = path_of(innermost(app)), help = verb.empty() ? "ridge --help" : "ridge " + verb + " --help";
  const std::string what = error.what(), conversion = "Could not convert: ";
  if (const std::size_t equals = what.find(" = "); what.starts_with(conversion) && equals != std::string::npos)
    return usage_error(fmt::format("expected a number for {}, found '{}'",
                                   what.substr(conversion.size(), equals - conversion.size()), what.substr(equals + 3)),
                       help);
  return usage_error(what, help);
}

int start(int argc, char** argv) {
  int code = 0;
  CLI::App app(about, "ridge");
  app.formatter(std::make_shared<ExamplesFirst>());
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("ridge {} ({})", version(), commit()), "Print version and commit");
  add_explain(app, code);
  add_run(app, code);
  add_sweep(app, code);
  add_simulate(app, code);
  add_probe(app, code);
  add_bench(app, code);
  add_kernels(app, code);
  add_machines(app, code);
  add_manual(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const bool no_verb = app.get_subcommands().empty() && app.remaining_size() > 0;  // ridge explian --help
    return no_verb ? fail(unexpected(app)) : print(app.help());
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
