// Shell completion and the manual page, from the same table of options that parses the command line: what one knows,
// the others know.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"

namespace ridge::cli {
namespace {

struct Verb {
  std::string path;  // "simulate systolic"; empty: ridge itself
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Verb>& all) {
  all.push_back({path, &app});
  for (const CLI::App* sub : app.get_subcommands({}))
    collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), all);
}

std::vector<Verb> verbs_of(const CLI::App& app) {
  std::vector<Verb> all;
  collect(app, "", all);
  return all;
}

// The values of an option that has a few: "ridge cublaslt" of TEXT:{ridge,cublaslt}; empty: any.
std::string choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return "";
  std::string out = type.substr(open + 1, close - open - 1);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

struct Word {
  std::string text, help;
  bool takes_value;
  std::string choices;  // between blanks; empty: any value
};

// "--on", "-d", … with their dashes.
std::vector<Word> options_of(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::Option* option : app.get_options()) {
    const bool value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_snames())
      words.push_back({"-" + name, option->get_description(), value, choices(*option)});
    for (const std::string& name : option->get_lnames())
      words.push_back({"--" + name, option->get_description(), value, choices(*option)});
  }
  return words;
}

std::vector<std::string> words_after(const Verb& verb) {
  std::vector<std::string> words;
  for (const CLI::App* sub : verb.app->get_subcommands({})) words.push_back(sub->get_name());
  for (const CLI::Option* option : verb.app->get_options())
    if (option->get_positional() && !choices(*option).empty()) words.push_back(choices(*option));
  for (const Word& word : options_of(*verb.app)) words.push_back(word.text);
  return words;
}

// What --on and the argument of `machines` may be; programs and files are the shell's to complete.
std::string machine_words() {
  std::vector<std::string> names = catalog_names();
  names.emplace_back("cpu");
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash(const CLI::App& app) {
  std::string cases;
  for (const Verb& verb : verbs_of(app))
    cases += fmt::format("    '{}') words='{}' ;;\n", verb.path, fmt::join(words_after(verb), " "));
  std::string values;
  for (const Verb& verb : verbs_of(app))
    for (const CLI::Option* option : verb.app->get_options())
      for (const std::string& name : option->get_lnames())
        if (const std::string some = choices(*option); !some.empty())
          values += fmt::format("    '{} --{}') words='{}' ;;\n", verb.path, name, some);
  std::string verbs;
  for (const Verb& verb : verbs_of(app))
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
    [[ $word != *,* ]] || next=${{word%,*}},  # the last of several
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
                     verbs, machine_words(), cases, values);
}

std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish(const CLI::App& app) {
  std::string out = "# fish completion for ridge: ridge completion fish | source\n";
  for (const Verb& verb : verbs_of(app)) {
    std::string here = "__fish_use_subcommand";
    if (!verb.path.empty()) here = "__fish_seen_subcommand_from " + verb.path.substr(verb.path.find_last_of(' ') + 1);
    for (const CLI::App* sub : verb.app->get_subcommands({}))
      out += fmt::format("complete -c ridge -n {} -a {} -d {}\n", in_single_quotes(here), sub->get_name(),
                         in_single_quotes(sub->get_description()));
    for (const Word& word : options_of(*verb.app)) {
      const std::string name = word.text.substr(word.text.find_first_not_of('-'));
      const std::string some = word.text == "--on" ? machine_words() : word.choices;
      const std::string values = !some.empty() ? " -xa " + in_single_quotes(some) : word.takes_value ? " -r" : "";
      out += fmt::format("complete -c ridge -n {} -{} {} -d {}{}\n", in_single_quotes(here),
                         word.text.starts_with("--") ? "l" : "s", name, in_single_quotes(word.help), values);
    }
  }
  return out;
}

// zsh reads bash's completion.
std::string zsh(const CLI::App& app) {
  return "#compdef ridge\n# zsh completion for ridge: eval \"$(ridge completion zsh)\"\nautoload -U +X bashcompinit && "
         "bashcompinit\n" +
         bash(app);
}

// Text for troff: backslashes and dashes kept, lines that begin with a point or a quote not taken for commands.
std::string troff(const std::string& text) {
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

std::string man_options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name(option->get_positional(), true), type = option->get_type_name();
    out += fmt::format(".TP\n\\fB{}\\fR", troff(name));
    if (!type.empty()) out += fmt::format(" \\fI{}\\fR", troff(type));
    out += fmt::format("\n{}\n", troff(option->get_description()));
  }
  return out;
}

std::string man(const CLI::App& app) {
  std::string out = fmt::format(
      ".TH RIDGE 1 \"\" \"ridge {}\"\n.SH NAME\nridge \\- know the roof, reach it, show the "
      "difference\n.SH SYNOPSIS\n.B ridge\n\\fIverb\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
      "Takes a tensor program, says how fast it can run on a machine and what bounds it, runs it, "
      "and shows predicted and measured time side by side.\n",
      troff(std::string(version())));
  for (const Verb& verb : verbs_of(app)) {
    if (verb.path.empty()) {
      out += ".SH OPTIONS\n" + man_options(*verb.app);
      continue;
    }
    std::string heading = verb.path;
    std::transform(heading.begin(), heading.end(), heading.begin(), [](unsigned char c) { return std::toupper(c); });
    out += fmt::format(".SH {}\n{}.\n", troff(heading), troff(verb.app->get_description())) + man_options(*verb.app);
    if (!verb.app->get_footer().empty()) out += fmt::format(".PP\n.nf\n{}.fi\n", troff(verb.app->get_footer()));
  }
  return out +
         ".SH EXIT STATUS\n0 ok, 1 finding, 2 usage, 3 bad input, 4 machine or driver absent, 5 numbers differ.\n"
         ".SH ENVIRONMENT\n\\fBNO_COLOR\\fR, \\fBXDG_DATA_HOME\\fR (where \\fBridge probe\\fR keeps what it "
         "measured), \\fBRIDGE_ISA\\fR, \\fBRIDGE_PIN\\fR.\n";
}

}  // namespace

void add_manual(CLI::App& app, int& code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a shell's completion: bash, zsh or fish");
  completion->footer("Examples:\n  eval \"$(ridge completion bash)\"\n");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->type_name("")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  completion->callback([shell, &app, &code] {
    code = print(*shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app));
  });
  CLI::App* page = app.add_subcommand("man", "Print the manual page: ridge man | man -l -");
  page->callback([&app, &code] { code = print(man(app)); });
}

}  // namespace ridge::cli
