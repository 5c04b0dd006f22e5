#include "ridge/cli/option_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"

namespace ridge::cli {
namespace {

// Returns "a, b or c".
std::string join_alternatives(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const separator = i + 1 < words.size() ? ", " : " or ";
    out += (i == 0 ? "" : separator) + words[i];
  }
  return out;
}

template <class T> std::optional<T> parse_number(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || rest != end) return std::nullopt;
  return value;
}

template <class T> CLI::Validator range_validator(T low, T high, const std::string& what) {
  return CLI::Validator(
      [low, high, what](const std::string& text) {
        const auto value = parse_number<T>(text);
        if (value && *value >= low && *value <= high) return std::string();
        return fmt::format("expected {} from {} to {}, found '{}'", what, low, high, text);
      },
      "");
}

// Returns the factor of a prefix, 1e9 for "G" and 2^30 for "Gi"; nullopt for other text.
std::optional<double> prefix_factor(std::string_view prefix) {
  constexpr std::string_view small = "munp", large = "kMGTPE";
  if (prefix.empty()) return 1;
  const auto power = static_cast<double>(large.find(prefix.front()) + 1);
  const bool is_large = large.find(prefix.front()) != std::string_view::npos;
  if (prefix == "Ki") return 1024;  // The standard's spelling; with 1000 it is k.
  if (prefix.size() == 2 && prefix[1] == 'i' && is_large) return std::pow(1024.0, power);
  if (prefix.size() != 1) return std::nullopt;
  if (is_large) return std::pow(1000.0, power);
  const std::size_t step = small.find(prefix.front());
  return step == std::string_view::npos ? std::nullopt
                                        : std::optional(std::pow(1000.0, -static_cast<double>(step + 1)));
}

// Returns the number of units in "1GB"; nullopt if it has another unit or none.
std::optional<double> parse_quantity(const std::string& text, std::string_view unit) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  if (failed != std::errc() || !suffix.ends_with(unit)) return std::nullopt;
  const auto factor = prefix_factor(suffix.substr(0, suffix.size() - unit.size()));
  return factor ? std::optional(value * *factor) : std::nullopt;
}

std::string quantity_example(const std::string& unit) {
  if (unit == "B") return "a number of bytes, such as 1e9, 1GB or 1GiB";
  return unit == "s" ? "a number of seconds, such as 1e-3 or 1ms" : fmt::format("a number, such as 1e12 or 1T{}", unit);
}

std::string suggest_name(const CLI::App& app, const std::string& typed) {
  std::vector<std::string> candidates;
  if (!typed.starts_with('-'))
    for (const CLI::App* verb : app.get_subcommands({})) candidates.push_back(verb->get_name());
  if (typed.starts_with('-'))
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      for (const std::string& name : option->get_snames()) candidates.push_back("-" + name);
    }
  const std::string suggestion = find_nearest(typed.substr(0, typed.find('=')), candidates);
  return suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion);
}

// Returns the last verb of the command line: `systolic` of `simulate systolic`.
const CLI::App& innermost_verb(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  return verbs.empty() ? app : innermost_verb(*verbs.front());
}

std::string verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return join_alternatives(names);
}

// Returns the part of a CLI11 message before or after `between`. The tests cover each kind of message: NAME: Could not
// convert: …, NAME is required, A excludes B.
std::string message_part(const std::string& text, const std::string& separator, bool is_after) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) return text;
  return is_after ? text.substr(at + separator.size()) : text.substr(0, at);
}

std::string conversion_message(const std::string& what) {
  const std::string rest = message_part(what, "Could not convert: ", true);
  const std::string typed = message_part(rest, " = ", true);
  // A number that is not converted has a fraction or an exponent, or is too large.
  return fmt::format("expected a {}number for {}, found '{}'", parse_number<double>(typed) ? "whole " : "",
                     message_part(rest, " = ", false), typed);
}

// Translates "--split: At Most 1 required but received 2" and "--on: 1 required MACHINE missing".
std::string count_message(const std::string& what) {
  const std::string name = message_part(what, ":", false);
  if (what.find("missing") != std::string::npos || what.find("received 0") != std::string::npos)
    return fmt::format("expected a value after {}, found none", name);
  if (what.find("received") != std::string::npos) return fmt::format("expected {} once, found it several times", name);
  return fmt::format("wrong number of values after {}", name);
}

std::string parse_error_message(const CLI::ParseError& error) {
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error)) return conversion_message(what);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return count_message(what);
  if (dynamic_cast<const CLI::RequiredError*>(&error))
    return fmt::format("expected {}, found none", message_part(what, " is required", false));
  if (dynamic_cast<const CLI::ExcludesError*>(&error))
    return fmt::format("expected {} without {}", message_part(what, " excludes ", false),
                       message_part(what, " excludes ", true));
  if (dynamic_cast<const CLI::RequiresError*>(&error))
    return fmt::format("expected {} together with {}", message_part(what, " requires ", false),
                       message_part(what, " requires ", true));
  if (dynamic_cast<const CLI::ValidationError*>(&error)) return what;  // From the checks in this file
  return "these arguments cannot be combined";
}

bool contains_word(std::string_view words, const std::string& word) {
  std::istringstream all{std::string(words)};
  for (std::string each; all >> each;)
    if (each == word) return true;
  return false;
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](const std::string& text) {
        if (contains(words, text)) return std::string();
        return fmt::format("expected {}, found '{}'", join_alternatives(words), text);
      },
      fmt::format("{{{}}}", fmt::join(words, ",")));
}

CLI::Validator name_of(const std::string& what) {
  return CLI::Validator(
      [what](const std::string& text) {
        if (!text.empty() && !text.starts_with("--")) return std::string();
        return fmt::format("expected {}, found '{}'", what, text);
      },
      "");
}

CLI::Validator quantity_in(const std::string& unit) {
  return CLI::Validator(
      [unit](std::string& text) {
        if (parse_number<double>(text)) return std::string();
        const auto value = parse_quantity(text, unit);
        if (!value) return fmt::format("expected {}, found '{}'", quantity_example(unit), text);
        text = fmt::format("{}", *value);
        return std::string();
      },
      "");
}

CLI::Validator whole_number_between(std::int64_t low, std::int64_t high) {
  return range_validator(low, high, "a whole number");
}
CLI::Validator number_between(double low, double high) { return range_validator(low, high, "a number"); }

std::string verb_path(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string before = verb_path(*app.get_parent());
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

Error unexpected_argument_error(const CLI::App& app) {
  const CLI::App& where = innermost_verb(app);
  std::vector<std::string> rest = where.remaining();
  if (rest.empty()) rest = app.remaining(true);
  const std::string typed = rest.empty() ? "" : rest.front();
  const std::string suggestion = suggest_name(where, typed);
  if (typed.starts_with('-') && typed != "-")
    return usage_error(fmt::format("unknown option '{}'", typed), suggestion.empty() ? "ridge --help" : suggestion);
  if (&where == &app) return unknown_verb_error(app, typed);
  return usage_error(fmt::format("unexpected argument '{}' after {}", typed, verb_path(where)),
                     fmt::format("ridge {} --help", verb_path(where)));
}

Error unknown_verb_error(const CLI::App& app, const std::string& typed) {
  const std::string path = verb_path(app), names = verb_names(app);
  if (names.empty())
    return usage_error(fmt::format("unknown verb '{} {}'; {} has no verbs", path, typed, path), "ridge help " + path);
  return usage_error(fmt::format("unknown verb '{}{}{}'; expected {}", path, path.empty() ? "" : " ", typed, names),
                     suggest_name(app, typed));
}

Error to_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto verbs = app.get_subcommands();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (extra || (verbs.empty() && app.remaining_size() > 0)) return unexpected_argument_error(app);
  if (verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return usage_error(fmt::format("expected a verb: {}; found none", verb_names(app)), "ridge --help");
  const std::string verb = verb_path(innermost_verb(app));
  return usage_error(parse_error_message(error), verb.empty() ? "ridge --help" : "ridge " + verb + " --help");
}

Status check_combined_options(const CLI::App& verb, const std::string& mode, std::string_view supported) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != mode && !option->get_positional() && !contains_word(supported, name))
      return usage_error(fmt::format("expected {} without {}", mode, name),
                         fmt::format("{} can be combined with {}", mode, supported));
  }
  return Done{};
}

Status check_required_option(const CLI::App& verb, std::string_view options, const std::string& required) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 && contains_word(options, option->get_name()))
      return usage_error(fmt::format("expected {} together with {}", option->get_name(), required));
  return Done{};
}

}  // namespace ridge::cli
