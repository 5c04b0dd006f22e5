// Numbers for dimensions: what is given first, then the defaults, each as soon as all that it depends on is known, so
// that F = 4*D follows -d D=4096.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"
#include "ridge/program/token.h"

namespace ridge {

std::vector<std::string> Program::dim_names() const {
  std::vector<std::string> names;
  for (const Dimension& d : dims) names.push_back(d.name);
  return names;
}

namespace {

Error unknown(const std::string& name, const std::vector<std::string>& known) {
  const std::string meant = notation::suggestion(name, known);
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  return input_error(fmt::format("unknown dimension {}", notation::quoted(name)),
                     !meant.empty()  ? fmt::format("did you mean '{}'?", meant)
                     : known.empty() ? "the program has no named dimension"
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
    if (symbols.size() != 1 || !(*found->value == Polynomial::symbol(symbols[0]))) return none;
    name = symbols[0];
  }
  return none;
}

// Whether a size with quotients, H/8, is a whole number there.
static bool whole(const Polynomial& size, const Bindings& values) {
  std::int64_t denominator = 1;
  for (const auto& term : size.terms()) denominator = std::lcm(denominator, term.second.den());
  if (denominator == 1) return true;
  const auto scaled = (size * Rational(denominator)).evaluate(values);
  return scaled && *scaled % denominator == 0;
}

Result<Bindings> Program::bind(const Bindings& given) const {
  const std::vector<std::string> known = known_names(*this);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) return unknown(name, known);
    if (value < 1)
      return input_error(fmt::format("dimension '{}' must be at least 1, found {}", name, value),
                         fmt::format("give {} a size of 1 or more", name));
  }
  for (const Dimension& d : dims)
    if (given.contains(d.name) && !lengths_along(*this, d.name).empty())
      return input_error(fmt::format("expected no value of '{}', whose sequences have lengths of their own, found {}",
                                     d.name, given.at(d.name)),
                         "other lengths are another program");
  Bindings values = given;
  for (const MeshAxis& axis : mesh)
    if (axis.size) values.emplace(axis.name, *axis.size);
  for (bool progress = true; progress;) {
    progress = false;
    for (const Dimension& d : dims) {
      if (!d.value || values.contains(d.name)) continue;
      const std::vector<std::string> needs = d.value->symbols();
      if (!std::all_of(needs.begin(), needs.end(), [&](const std::string& s) { return values.contains(s); })) continue;
      const Result<std::int64_t> value = d.value->evaluate(values);
      const notation::Source place{text, source};
      if (!value)
        return place.error(d.span, fmt::format("dimension '{}': {}", d.name, value.error().message),
                           value.error().hint);
      if (!whole(*d.value, values))
        return place.error(d.span,
                           fmt::format("dimension '{}' must be whole, found {} = {:.4g}", d.name, d.value->text(known),
                                       d.value->real({values.begin(), values.end()})),
                           fmt::format("change what it depends on, or give it with -d {}=…", d.name));
      if (*value < 1)
        return place.error(
            d.span,
            fmt::format("dimension '{}' must be at least 1, found {} = {}", d.name, d.value->text(known), *value),
            fmt::format("change what it depends on, or give it with -d {}=…", d.name));
      values[d.name] = *value;
      progress = true;
    }
  }
  if (auto fault = routine_fault(*this, values)) return *std::move(fault);
  if (auto fault = block_fault(*this, values)) return *std::move(fault);
  return values;
}

}  // namespace ridge
