// Binds dimensions to numbers: first the given values, then the defaults in order of dependence, so that F = 4*D
// follows -d D=4096.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/base/contains.h"
#include "ridge/program/program.h"
#include "ridge/program/routine.h"
#include "ridge/program/tokenizer.h"

namespace ridge {

std::optional<std::int64_t> Axis::size(const Bindings& sizes) const {
  if (!is_named()) return literal;
  const auto found = sizes.find(dim);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

bool has_dim(const std::vector<Axis>& axes, const std::string& dim) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

std::vector<std::string> Program::dim_names() const {
  std::vector<std::string> names;
  for (const Dimension& d : dims) names.push_back(d.name);
  return names;
}

namespace {

Error unknown_dimension_error(const std::string& name, const std::vector<std::string>& known) {
  const std::string suggestion = program::suggest_name(name, known);
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  return input_error(fmt::format("unknown dimension {}", program::quote_word(name)),
                     !suggestion.empty() ? fmt::format("did you mean '{}'?", suggestion)
                     : known.empty()     ? "the program has no named dimension"
                                         : fmt::format("the program's dimensions are {}", list));
}

std::vector<std::string> known_names(const Program& program) {
  std::vector<std::string> names = program.dim_names();
  for (const MeshAxis& axis : program.mesh) names.push_back(axis.name);
  return names;
}

}  // namespace

const std::vector<std::int64_t>& lengths_along(const Program& program, const std::string& dim) {
  static const std::vector<std::int64_t> none;
  std::string name = dim;
  for (std::size_t step = 0; step <= program.dims.size(); ++step) {
    const auto found =
        std::find_if(program.dims.begin(), program.dims.end(), [&](const Dimension& d) { return d.name == name; });
    if (found == program.dims.end() || !found->value) return none;
    if (!found->lengths.empty()) return found->lengths;
    const std::vector<std::string> symbols = found->value->symbols();
    if (symbols.size() != 1 || !(*found->value == Polynomial::make_symbol(symbols[0]))) return none;
    name = symbols[0];
  }
  return none;
}

// True if a size with a quotient, such as H/8, is a whole number for these values.
static bool is_whole_number(const Polynomial& size, const Bindings& values) {
  std::int64_t denominator = 1;
  for (const auto& term : size.terms()) denominator = std::lcm(denominator, term.second.denominator());
  if (denominator == 1) return true;
  const auto scaled = (size * Rational(denominator)).evaluate(values);
  return scaled && *scaled % denominator == 0;
}

// Checks that the values are of dimensions or mesh axes that take one, and at least 1.
static Status check_given(const Program& program, const Bindings& given, const std::vector<std::string>& known) {
  for (const auto& [name, value] : given) {
    if (!contains(known, name)) return unknown_dimension_error(name, known);
    if (value < 1)
      return input_error(fmt::format("dimension '{}' must be at least 1, found {}", name, value),
                         fmt::format("give {} a size of 1 or more", name));
  }
  for (const Dimension& d : program.dims)
    if (given.contains(d.name) && !lengths_along(program, d.name).empty())
      return input_error(fmt::format("expected no value for '{}', whose sequence lengths the program gives, found {}",
                                     d.name, given.at(d.name)),
                         "change the lengths in the program");
  return Done{};
}

// Returns the size of a dimension whose declared size depends on the values.
static Result<std::int64_t> evaluate_size(const Program& program, const Dimension& d, const Bindings& values,
                                          const std::vector<std::string>& known) {
  const program::SourceText source_text{program.text, program.source};
  const Result<std::int64_t> value = d.value->evaluate(values);
  if (!value)
    return source_text.error_at(d.span, fmt::format("dimension '{}': {}", d.name, value.error().message),
                                value.error().hint);
  if (!is_whole_number(*d.value, values))
    return source_text.error_at(
        d.span,
        fmt::format("dimension '{}' must be whole, found {} = {:.4g}", d.name, d.value->to_string(known),
                    d.value->evaluate_double({values.begin(), values.end()})),
        fmt::format("change what it depends on, or give it with -d {}=…", d.name));
  if (*value < 1)
    return source_text.error_at(
        d.span,
        fmt::format("dimension '{}' must be at least 1, found {} = {}", d.name, d.value->to_string(known), *value),
        fmt::format("change what it depends on, or give it with -d {}=…", d.name));
  return *value;
}

Result<Bindings> Program::bind_sizes(const Bindings& given) const {
  const std::vector<std::string> known = known_names(*this);
  RIDGE_TRY_STATUS(check_given(*this, given, known));
  Bindings values = given;
  for (const MeshAxis& axis : mesh)
    if (axis.size) values.emplace(axis.name, *axis.size);
  for (bool progress = true; progress;) {
    progress = false;
    for (const Dimension& d : dims) {
      if (!d.value || values.contains(d.name)) continue;
      const std::vector<std::string> needs = d.value->symbols();
      if (!std::all_of(needs.begin(), needs.end(), [&](const std::string& s) { return values.contains(s); })) continue;
      RIDGE_TRY(value, evaluate_size(*this, d, values, known));
      values[d.name] = value;
      progress = true;
    }
  }
  RIDGE_TRY_STATUS(validate_routine_sizes(*this, values));
  RIDGE_TRY_STATUS(validate_block_sizes(*this, values));
  return values;
}

}  // namespace ridge
