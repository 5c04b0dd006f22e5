// Shell completion and the manual page, generated from the options that parse the command line.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

struct VerbEntry {
  std::string path;  // Such as "simulate systolic"; "" for ridge itself
  const CLI::App* app;
};

void collect_verbs(const CLI::App& app, const std::string& path, std::vector<VerbEntry>& all) {
  all.push_back({path, &app});
  for (const CLI::App* sub : app.get_subcommands({}))
    collect_verbs(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), all);
}

std::vector<VerbEntry> list_verbs(const CLI::App& app) {
  std::vector<VerbEntry> all;
  collect_verbs(app, "", all);
  return all;
}

struct OptionEntry {
  std::string text, help;
  bool takes_value;
  std::string choices;  // Separated by blanks; "" for any value
};

// Returns the options with their dashes: "--on", "-d", …
std::vector<OptionEntry> list_options(const CLI::App& app) {
  std::vector<OptionEntry> words;
  for (const CLI::Option* option : app.get_options()) {
    const bool value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_snames())
      words.push_back({"-" + name, option->get_description(), value, option_choices(*option)});
    for (const std::string& name : option->get_lnames())
      words.push_back({"--" + name, option->get_description(), value, option_choices(*option)});
  }
  return words;
}

// Returns the verbs that may follow a verb. Any verb may follow `help`.
std::vector<const CLI::App*> following_verbs(const VerbEntry& verb) {
  return (verb.path == "help" ? verb.app->get_parent() : verb.app)->get_subcommands({});
}

std::vector<std::string> completion_words(const VerbEntry& verb) {
  std::vector<std::string> words;
  for (const CLI::App* sub : following_verbs(verb)) words.push_back(sub->get_name());
  for (const CLI::Option* option : verb.app->get_options())
    if (option->get_positional() && !option_choices(*option).empty()) words.push_back(option_choices(*option));
  for (const OptionEntry& option : list_options(*verb.app)) words.push_back(option.text);
  return words;
}

// Returns completions of --on and of the argument of `machines`. The shell completes files.
std::string machine_names() {
  std::vector<std::string> names = catalog_names();
  names.emplace_back("cpu");
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash_completion(const CLI::App& app) {
  std::string cases;
  for (const VerbEntry& verb : list_verbs(app))
    cases += fmt::format("    '{}') words='{}' ;;\n", verb.path, fmt::join(completion_words(verb), " "));
  std::string values;
  for (const VerbEntry& verb : list_verbs(app))
    for (const CLI::Option* option : verb.app->get_options())
      for (const std::string& name : option->get_lnames())
        if (const std::string choices = option_choices(*option); !choices.empty())
          values += fmt::format("    '{} --{}') words='{}' ;;\n", verb.path, name, choices);
  std::string verbs;
  for (const VerbEntry& verb : list_verbs(app))
    if (!verb.path.empty()) verbs += fmt::format("{}'{}'", verbs.empty() ? "" : "|", verb.path);
  return fmt::format(R"sh(# bash completion for ridge: eval "$(ridge completion bash)"
_ridge() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb='' next words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    next="${{verb:+$verb }}${{COMP_WORDS[i]}}"
    case "$next" in {}) verb=$next ;; *) break ;; esac
  done
  if [[ ($before == --on && $verb != probe) || ($verb == machines && $word != -*) ]]; then
    next=''
    [[ $word != *,* ]] || next=${{word%,*}},  # Completes the last name of a list
    mapfile -t COMPREPLY < <(compgen -P "$next" -W '{}' -- "${{word##*,}}")
    return
  fi
  case "$verb" in
{}  esac
  case "$verb $before" in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _ridge ridge
)sh",
                     verbs, machine_names(), cases, values);
}

std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish_completion(const CLI::App& app) {
  std::string out = "# fish completion for ridge: ridge completion fish | source\n";
  for (const VerbEntry& verb : list_verbs(app)) {
    std::string condition = "__fish_use_subcommand";
    if (!verb.path.empty())
      condition = "__fish_seen_subcommand_from " + verb.path.substr(verb.path.find_last_of(' ') + 1);
    for (const CLI::App* sub : following_verbs(verb))
      out += fmt::format("complete -c ridge -n {} -a {} -d {}\n", in_single_quotes(condition), sub->get_name(),
                         in_single_quotes(sub->get_description()));
    for (const OptionEntry& option : list_options(*verb.app)) {
      const std::string name = option.text.substr(option.text.find_first_not_of('-'));
      const std::string choices = option.text == "--on" ? machine_names() : option.choices;
      const std::string values = !choices.empty()     ? " -xa " + in_single_quotes(choices)
                                 : option.takes_value ? " -r"
                                                      : "";
      out += fmt::format("complete -c ridge -n {} -{} {} -d {}{}\n", in_single_quotes(condition),
                         option.text.starts_with("--") ? "l" : "s", name, in_single_quotes(option.help), values);
    }
  }
  return out;
}

// zsh uses the bash completion.
std::string zsh_completion(const CLI::App& app) {
  return "#compdef ridge\n# zsh completion for ridge: eval \"$(ridge completion zsh)\"\nautoload -U +X bashcompinit && "
         "bashcompinit\n" +
         bash_completion(app);
}

// Escapes text for troff: backslashes, dashes, and a dot or quote at the start of a line.
std::string escape_troff(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

std::string format_man_options(const CLI::App& app) {
  std::string out;
  const std::vector<OptionGroup> groups = list_option_groups(app);
  for (const OptionGroup& group : groups) {
    if (groups.size() > 1) out += fmt::format(".SS {}\n", escape_troff(group.name));
    for (const CLI::Option* option : group.options) {
      const std::string value = option->get_positional() ? "" : option_value_name(*option);
      out += fmt::format(".TP\n\\fB{}\\fR", escape_troff(option_names(*option)));
      if (!value.empty()) out += fmt::format(" \\fI{}\\fR", escape_troff(value));
      out += fmt::format("\n{}\n", escape_troff(option_description(*option)));
    }
  }
  return out;
}

// Environment variables, as in README.md, and their effects.
constexpr std::pair<const char*, const char*> environment_variables[] = {
    {"RIDGE_ISA", "Limit of the CPU kernels: plain, avx2, avx512, avx512_bf16 or amx."},
    {"RIDGE_PIN", "If 1, threads are pinned to cores."},
    {"RIDGE_NVRTC", "Path of NVRTC; the value off disables compiling at run time."},
    {"RIDGE_NCCL, RIDGE_MPI, RIDGE_OPENBLAS, RIDGE_MKL", "Path of the library."},
    {"XDG_DATA_HOME", "Folder of probed machines; default ~/.local/share."},
    {"XDG_CACHE_HOME", "Folder of compiled kernels and tuned plans; default ~/.cache."},
    {"NO_COLOR", "If set, there is neither color nor progress bar."},
    {"CLICOLOR_FORCE", "If set and not 0, output to a pipe has color, too."},
    {"TERM", "If dumb, there is neither color nor progress bar."},
    {"COLUMNS", "Width of tables and help, also in pipes; 0 for no limit. Default: the terminal's width."},
    {"CUDA_HOME, CUDA_PATH, VIRTUAL_ENV, CONDA_PREFIX, PATH", "Folders that are searched for NVRTC and cuobjdump."},
    {"CUDA_VISIBLE_DEVICES", "GPUs that CUDA makes visible."},
};

std::string format_man_environment() {
  std::string out = ".SH ENVIRONMENT\n";
  for (const auto& [names, effect] : environment_variables)
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escape_troff(names), escape_troff(effect));
  return out + ".PP\nRanks also read the variables that mpirun, srun and torchrun set.\n";
}

std::string format_man_page(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH RIDGE 1 \"\" \"ridge {}\"\n.SH NAME\nridge \\- compute how fast a tensor program can run and what limits "
      "it\n"
      ".SH SYNOPSIS\n.B ridge\n\\fIverb\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
      "Analyzes a tensor program: how fast it can run on a machine and what limits it. Runs it "
      "and compares predicted with measured times.\n",
      escape_troff(std::string(version())));
  for (const VerbEntry& verb : list_verbs(app)) {
    if (verb.path.empty()) {
      out += ".SH OPTIONS\n" + format_man_options(*verb.app);
      continue;
    }
    std::string heading = verb.path;
    std::transform(heading.begin(), heading.end(), heading.begin(), [](unsigned char c) { return std::toupper(c); });
    out += fmt::format(".SH {}\n{}.\n", escape_troff(heading), escape_troff(verb.app->get_description())) +
           format_man_options(*verb.app);
    if (!verb.app->get_footer().empty()) out += fmt::format(".PP\n.nf\n{}.fi\n", escape_troff(verb.app->get_footer()));
  }
  return out +
         ".SH EXIT STATUS\n0 ok, 1 finding, 2 usage, 3 bad input, 4 machine or driver absent, 5 results differ.\n" +
         format_man_environment();
}

}  // namespace

void add_manual(CLI::App& app, int& code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print the completion script for bash, zsh or fish");
  completion->footer("Examples:\n  eval \"$(ridge completion bash)\"\n");
  completion->add_option("SHELL", *shell, "Shell: bash, zsh or fish")
      ->type_name("")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  completion->callback([shell, &app, &code] {
    code = print_result(*shell == "bash"  ? bash_completion(app)
                        : *shell == "zsh" ? zsh_completion(app)
                                          : fish_completion(app));
  });
  CLI::App* page = app.add_subcommand("man", "Print the manual page: ridge man | man -l -");
  page->callback([&app, &code] { code = print_result(format_man_page(app)); });
}

}  // namespace ridge::cli
