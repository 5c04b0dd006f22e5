#include "ridge/machine/number.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/text.h"

namespace ridge::machine_file {
namespace {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
  const std::string near = nearest(word, words);
  return near.empty() ? near : fmt::format("did you mean '{}'?", near);
}

// How many of `unit` one of `written` is ("TFLOP/s": 1e12, "GiB": 2^30); 0: another kind of unit.
double prefix_factor(std::string_view written, std::string_view unit) {
  if (written.size() <= unit.size() || !written.ends_with(unit)) return 0;
  const std::string_view prefix = written.substr(0, written.size() - unit.size());
  double decimal = 1, binary = 1;
  for (const char c : std::string_view("kMGTP")) {
    decimal *= 1e3;
    binary *= 1024;
    if (prefix == std::string_view(&c, 1)) return decimal;
    if (prefix.size() == 2 && prefix[1] == 'i' && prefix[0] == (c == 'k' ? 'K' : c)) return binary;
  }
  return 0;
}

Result<double> value_of(const Text& text, const toml::node& node, std::string_view what) {
  if (!node.is_number())
    return text.error(node.source(),
                      fmt::format("expected a number for the value of {}, found {}", what, describe(node)),
                      node.is_string() ? "write the number without quotes" : "");
  // A whole number above 2^53 need be no double: the nearest serves.
  const auto* whole = node.as_integer();
  const double value = whole ? static_cast<double>(whole->get()) : *node.value<double>();
  if (!(value > 0))
    return text.error(node.source(), fmt::format("expected a value above zero for {}, found {}", what, value),
                      "leave a number that is not known out of the file");
  // Beyond these the products and quotients of the model would leave the range of a double.
  if (value < 1e-30 || value > 1e30)
    return text.error(node.source(), fmt::format("expected a value from 1e-30 to 1e30 for {}, found {}", what, value));
  return value;
}

Status check_unit(const Text& text, const toml::node& node, std::string_view what, std::string_view unit,
                  double value) {
  Result<std::string> written = string(text, node, fmt::format("the unit of {}", what));
  if (!written) return written.error();
  if (*written == unit) return Done{};
  const double factor = prefix_factor(*written, unit);
  return text.error(node.source(), fmt::format("expected unit \"{}\" for {}, found \"{}\"", unit, what, *written),
                    factor > 0 ? fmt::format("write value = {}, unit = \"{}\"", value * factor, unit) : "");
}

Result<Origin> origin_of(const Text& text, const toml::node& node, std::string_view what) {
  Result<std::string> written = string(text, node, fmt::format("the origin of {}", what));
  if (!written) return written.error();
  std::vector<std::string> words;
  for (const Origin o : {Origin::datasheet, Origin::derived, Origin::measured, Origin::guessed}) {
    if (name(o) == *written) return o;
    words.emplace_back(name(o));
  }
  return text.error(
      node.source(),
      fmt::format("unknown origin \"{}\" of {}; expected one of {}", *written, what, fmt::join(words, ", ")),
      did_you_mean(*written, words));
}

Result<std::string> day_of(const Text& text, const toml::node& node, std::string_view what) {
  const auto* date = node.as_date();
  if (!date)
    return text.error(node.source(), fmt::format("expected a day for read of {}, found {}", what, describe(node)),
                      "write the day without quotes: read = 2026-11-20");
  return fmt::format("{:04}-{:02}-{:02}", date->get().year, date->get().month, date->get().day);
}

}  // namespace

std::string_view Text::line(int number) const {
  std::size_t begin = 0;
  for (int i = 1; i < number; ++i) {
    begin = toml.find('\n', begin);
    if (begin == std::string_view::npos) return {};
    ++begin;
  }
  std::string_view found = toml.substr(begin, toml.find('\n', begin) - begin);
  if (found.ends_with('\r')) found.remove_suffix(1);
  return found;
}

Error Text::error(const toml::source_region& where, std::string message, std::string hint) const {
  Span span{static_cast<int>(where.begin.line), static_cast<int>(where.begin.column), 1};
  if (where.end.line == where.begin.line && where.end.column > where.begin.column)
    span.length = static_cast<int>(where.end.column - where.begin.column);
  return {.kind = ErrorKind::input,
          .message = std::move(message),
          .hint = std::move(hint),
          .source = source,
          .span = span,
          .line_text = std::string(line(span.line))};
}

std::vector<Entry> entries(const toml::table& table) {
  std::vector<Entry> all;
  for (auto&& [key, node] : table) all.push_back({&key, &node});
  std::stable_sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    const auto& x = a.key->source().begin;
    const auto& y = b.key->source().begin;
    return x.line != y.line ? x.line < y.line : x.column < y.column;
  });
  return all;
}
std::string_view describe(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "a boolean";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date with a time";
    case toml::node_type::none: break;
  }
  return "nothing";
}

Error unknown_key(const Text& text, const toml::key& key, std::string_view where,
                  const std::vector<std::string>& words) {
  return text.error(key.source(),
                    fmt::format("unknown key '{}'{}; expected one of {}", key.str(), where, fmt::join(words, ", ")),
                    did_you_mean(key.str(), words));
}

Result<std::string> string(const Text& text, const toml::node& node, std::string_view what) {
  const auto* value = node.as_string();
  if (!value) return text.error(node.source(), fmt::format("expected a string for {}, found {}", what, describe(node)));
  if (value->get().empty()) return text.error(node.source(), fmt::format("expected a text in {}, found \"\"", what));
  return value->get();
}

Result<Sourced> number(const Text& text, const Entry& entry, const std::string& what, std::string_view unit) {
  const toml::table* table = entry.node->as_table();
  if (!table)
    return text.error(
        entry.node->source(), fmt::format("expected a table for {}, found {}", what, describe(*entry.node)),
        fmt::format("write {} = {{ value = 1e12, unit = \"{}\", source = \"a document\", read = 2026-11-20 }}",
                    entry.key->str(), unit));
  static const std::vector<std::string> words = {"value", "unit", "source", "read", "origin", "note"};
  for (const Entry& field : entries(*table))
    if (std::find(words.begin(), words.end(), field.key->str()) == words.end())
      return unknown_key(text, *field.key, " of " + what, words);
  for (const auto& [field, hint] : {std::pair{"value", ""},
                                    {"unit", ""},
                                    {"source", "say which document or measurement the number is from"},
                                    {"read", "say on which day it was read: read = 2026-11-20"}})
    if (!table->contains(field))
      return text.error(entry.key->source(),
                        fmt::format("{} lacks '{}'; expected value, unit, source and read", what, field), hint);
  Sourced result;
  Result<double> value = value_of(text, *table->get("value"), what);
  if (!value) return value.error();
  result.value = *value;
  if (Status unit_ok = check_unit(text, *table->get("unit"), what, unit, *value); !unit_ok) return unit_ok.error();
  Result<std::string> source = string(text, *table->get("source"), fmt::format("the source of {}", what));
  if (!source) return source.error();
  result.source = *source;
  Result<std::string> day = day_of(text, *table->get("read"), what);
  if (!day) return day.error();
  result.read_on = *day;
  if (const toml::node* node = table->get("origin")) {
    Result<Origin> origin = origin_of(text, *node, what);
    if (!origin) return origin.error();
    result.origin = *origin;
  }
  if (const toml::node* node = table->get("note")) {
    Result<std::string> note = string(text, *node, fmt::format("the note of {}", what));
    if (!note) return note.error();
    result.note = *note;
  }
  return result;
}
}  // namespace ridge::machine_file
