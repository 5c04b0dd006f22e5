#include "ridge/cli/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "ridge/base/text.h"

namespace ridge::cli {
namespace {

// "a, b or c"
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* const joint = i + 1 < words.size() ? ", " : " or ";
    out += (i == 0 ? "" : joint) + words[i];
  }
  return out;
}

template <class T> std::optional<T> parsed(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, value);
  if (failed != std::errc() || rest != end) return std::nullopt;
  return value;
}

template <class T> CLI::Validator between(T low, T high, const std::string& what) {
  return CLI::Validator(
      [low, high, what](const std::string& text) {
        const auto value = parsed<T>(text);
        if (value && *value >= low && *value <= high) return std::string();
        return fmt::format("expected {} from {} to {}, found '{}'", what, low, high, text);
      },
      "");
}

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

std::string verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  return listed(names);
}

// The parser's own texts, of which the tests hold each form: NAME: Could not convert: …, NAME is required, A excludes
// B.
std::string split_off(const std::string& text, const std::string& between, bool behind) {
  const std::size_t at = text.find(between);
  if (at == std::string::npos) return text;
  return behind ? text.substr(at + between.size()) : text.substr(0, at);
}

std::string of_conversion(const std::string& what) {
  const std::string rest = split_off(what, "Could not convert: ", true);
  return fmt::format("expected a number for {}, found '{}'", split_off(rest, " = ", false),
                     split_off(rest, " = ", true));
}

// "--split: At Most 1 required but received 2", "--on: 1 required MACHINE missing"
std::string of_count(const std::string& what) {
  const std::string name = split_off(what, ":", false);
  if (what.find("missing") != std::string::npos || what.find("received 0") != std::string::npos)
    return fmt::format("expected a value after {}, found none", name);
  if (what.find("received") != std::string::npos) return fmt::format("expected {} once, found it more often", name);
  return fmt::format("{} takes no such number of values", name);
}

std::string in_words(const CLI::ParseError& error) {
  const std::string what = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error)) return of_conversion(what);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return of_count(what);
  if (dynamic_cast<const CLI::RequiredError*>(&error))
    return fmt::format("expected {}, found none", split_off(what, " is required", false));
  if (dynamic_cast<const CLI::ExcludesError*>(&error))
    return fmt::format("expected {} without {}", split_off(what, " excludes ", false),
                       split_off(what, " excludes ", true));
  if (dynamic_cast<const CLI::RequiresError*>(&error))
    return fmt::format("expected {} together with {}", split_off(what, " requires ", false),
                       split_off(what, " requires ", true));
  if (dynamic_cast<const CLI::ValidationError*>(&error)) return what;  // the checks above
  return "these arguments cannot be read together";
}

bool holds(std::string_view words, const std::string& word) {
  std::istringstream all{std::string(words)};
  for (std::string each; all >> each;)
    if (each == word) return true;
  return false;
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](const std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return fmt::format("expected {}, found '{}'", listed(words), text);
      },
      fmt::format("{{{}}}", fmt::join(words, ",")));
}

CLI::Validator whole_number(std::int64_t low, std::int64_t high) { return between(low, high, "a whole number"); }
CLI::Validator number(double low, double high) { return between(low, high, "a number"); }

std::string path_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string before = path_of(*app.get_parent());
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

Error unexpected(const CLI::App& app) {
  const CLI::App& where = innermost(app);
  std::vector<std::string> rest = where.remaining();
  if (rest.empty()) rest = app.remaining(true);
  const std::string typed = rest.empty() ? "" : rest.front();
  const std::string near = suggestion(where, typed);
  if (typed.starts_with('-') && typed != "-")
    return usage_error(fmt::format("unknown option '{}'", typed), near.empty() ? "ridge --help" : near);
  if (&where == &app) return usage_error(fmt::format("unknown verb '{}'; expected {}", typed, verb_names(app)), near);
  return usage_error(fmt::format("unexpected argument '{}' after {}", typed, path_of(where)),
                     fmt::format("ridge {} --help", path_of(where)));
}

Error as_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto verbs = app.get_subcommands();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (extra || (verbs.empty() && app.remaining_size() > 0)) return unexpected(app);
  if (verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return usage_error(fmt::format("expected a verb: {}; found none", verb_names(app)), "ridge --help");
  const std::string verb = path_of(innermost(app));
  return usage_error(in_words(error), verb.empty() ? "ridge --help" : "ridge " + verb + " --help");
}

std::optional<Error> refuse_beside(const CLI::App& verb, const std::string& form, std::string_view beside) {
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != form && !option->get_positional() && !holds(beside, name))
      return usage_error(fmt::format("expected {} without {}", form, name),
                         fmt::format("{} goes with {}", form, beside));
  }
  return std::nullopt;
}

std::optional<Error> refuse_without(const CLI::App& verb, std::string_view options, const std::string& needed) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 && holds(options, option->get_name()))
      return usage_error(fmt::format("expected {} together with {}", option->get_name(), needed));
  return std::nullopt;
}

}  // namespace ridge::cli
