// Help pages. One formatter serves --help of every verb and `ridge help VERB`; the manual page uses the same groups and
// names of values.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::cli {

// Formats a page: examples, description, usage, options by group, verbs. Lines have the width of the terminal, at most
// 100 characters; without a terminal 80.
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

struct OptionGroup {
  std::string name;
  std::vector<const CLI::Option*> options;  // Positional arguments first
};
// Returns the groups in the order of their first options; options without a group are last. --help is the last option.
std::vector<OptionGroup> list_option_groups(const CLI::App& verb);
// Assigns options to groups: {{"Program", "PROGRAM -d --dtype"}, ...}. Every option must exist.
void group_options(CLI::App& verb, std::initializer_list<std::pair<const char*, std::string_view>> groups);

// Returns the allowed values of an option ("ridge cublaslt"), or "" if any value is allowed.
std::string option_choices(const CLI::Option& option);
// Returns "-h, --help", or the name of a positional argument.
std::string option_names(const CLI::Option& option);
// Returns the name of an option's value, such as "MACHINE" or "ridge|cublaslt"; "" for a flag.
std::string option_value_name(const CLI::Option& option);
// Returns the description. It contains the allowed values, if they are too long for the name of the value, and
// "(required)" if the option is.
std::string option_description(const CLI::Option& option);

}  // namespace ridge::cli
