#include "ridge/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "ridge/base/string_util.h"
#include "ridge/cli/option_checks.h"
#include "ridge/cli/output.h"

namespace ridge::cli {
namespace {

constexpr std::size_t default_width = 80, min_width = 40, max_width = 100;
constexpr std::size_t max_choices = 24;  // Characters of the allowed values in the name of a value
constexpr std::size_t label_width = 24;  // Characters before a description; a longer label has a line of its own

std::size_t page_width() {
  const std::size_t width = text_style().line_width;
  return width == 0 ? default_width : std::clamp(width, min_width, max_width);
}

// Returns "-d NAME=VALUE", "--tune[=N]" or "PROGRAM ...".
std::string option_label(const CLI::Option& option) {
  const std::string out = option_names(option);
  if (option.get_positional()) return option.get_expected_max() > 1 ? out + " ..." : out;
  const std::string value = option_value_name(option);
  return value.empty() || value.front() == '[' ? out + value : out + " " + value;
}

// Returns a label and, from column `label_width` on, the description.
std::string format_entry(const std::string& label, const std::string& description, std::size_t width) {
  std::string out = "  " + label;
  if (out.size() + 2 > label_width)
    out += "\n" + std::string(label_width, ' ');
  else
    out.resize(label_width, ' ');
  std::string text = wrap_words(description, width - label_width);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; ++at)
    text.insert(at + 1, std::string(label_width, ' '));
  return out + text + "\n";
}

std::string usage_line(const CLI::App& app) {
  const std::string path = verb_path(app);
  std::string out = "Usage: ridge " + (path.empty() ? "" : path + " ") + "[options]";
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) {
      const std::string name = option->get_name(true, false) + (option->get_expected_max() > 1 ? "..." : "");
      out += option->get_required() ? " " + name : " [" + name + "]";
    }
  if (!app.get_subcommands({}).empty()) out += app.get_require_subcommand_min() > 0 ? " VERB" : " [VERB]";
  return out;
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands({}))
    if (verb->get_name() == name) return verb;
  return nullptr;
}

Result<int> print_help(const CLI::App& app, const std::vector<std::string>& path) {
  const CLI::App* verb = &app;
  for (const std::string& name : path) {
    const CLI::App* const inner = find_verb(*verb, name);
    if (inner == nullptr) return unknown_verb_error(*verb, name);
    verb = inner;
  }
  return print_result(HelpFormatter().make_help(verb, "", CLI::AppFormatMode::Normal));
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  const std::size_t width = page_width();
  std::string out = app->get_footer();
  if (!out.empty()) out += "\n";
  out += wrap_words(app->get_description() + ".", width) + "\n" + wrap_words(usage_line(*app), width, 7) + "\n";
  for (const OptionGroup& group : list_option_groups(*app)) {
    out += "\n" + group.name + ":\n";
    for (const CLI::Option* option : group.options)
      out += format_entry(option_label(*option), option_description(*option), width);
  }
  const auto verbs = app->get_subcommands({});
  if (!verbs.empty()) out += "\nVerbs:\n";
  for (const CLI::App* verb : verbs) out += format_entry(verb->get_name(), verb->get_description(), width);
  return out;
}

std::vector<OptionGroup> list_option_groups(const CLI::App& verb) {
  std::vector<OptionGroup> groups;
  OptionGroup rest{"Options", {}};
  for (const CLI::Option* option : verb.get_options()) {
    if (option == verb.get_help_ptr()) continue;
    OptionGroup* group = &rest;
    if (option->get_group() != rest.name) {
      const auto found = std::find_if(groups.begin(), groups.end(),
                                      [&](const OptionGroup& each) { return each.name == option->get_group(); });
      group = found == groups.end() ? &groups.emplace_back(OptionGroup{option->get_group(), {}}) : &*found;
    }
    const auto first_named = std::find_if(group->options.begin(), group->options.end(),
                                          [](const CLI::Option* each) { return !each->get_positional(); });
    group->options.insert(option->get_positional() ? first_named : group->options.end(), option);
  }
  if (!rest.options.empty()) groups.insert(groups.begin(), std::move(rest));
  if (groups.empty()) groups.push_back({"Options", {}});
  if (verb.get_help_ptr() != nullptr) groups.back().options.push_back(verb.get_help_ptr());
  return groups;
}

void group_options(CLI::App& verb, std::initializer_list<std::pair<const char*, std::string_view>> groups) {
  for (const auto& [group, names] : groups) {
    std::istringstream words{std::string(names)};
    for (std::string name; words >> name;) verb.get_option(name)->group(group);
  }
}

std::string option_choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return "";
  std::string out = type.substr(open + 1, close - open - 1);
  std::replace(out.begin(), out.end(), ',', ' ');
  return out;
}

std::string option_names(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true, false);
  std::string out;
  for (const std::string& name : option.get_snames()) out += (out.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) out += (out.empty() ? "--" : ", --") + name;
  return out;
}

std::string option_value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::string choices = option_choices(option);
  if (option.get_items_expected_max() == 0 || choices.empty()) return type;  // "[=N]" or "" for a flag
  if (choices.size() > max_choices) return type.substr(0, type.find(':'));
  std::replace(choices.begin(), choices.end(), ' ', '|');
  return choices;
}

std::string option_description(const CLI::Option& option) {
  std::string out = option.get_description();
  if (const std::string choices = option_choices(option); choices.size() > max_choices && !option.get_positional())
    out += fmt::format(": {}", fmt::join(split_names(choices, ' '), ", "));
  return out + (option.get_required() ? " (required)" : "");
}

void add_help(CLI::App& app, int& code) {
  auto path = std::make_shared<std::vector<std::string>>();
  CLI::App* help = app.add_subcommand("help", "Print the help of a verb: ridge help run");
  help->footer("Examples:\n  ridge help explain\n  ridge help simulate systolic\n");
  help->add_option("VERB", *path, "Verb, such as explain; none for the general help")->type_name("");
  help->callback([path, &app, &code] { code = exit_code_of(print_help(app, *path)); });
}

}  // namespace ridge::cli
