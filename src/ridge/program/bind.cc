// Numbers for dimensions: what is given first, then the defaults, each as soon as all that it depends on is known, so
// that F = 4*D follows -d D=4096.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/program.h"
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

Result<Bindings> Program::bind(const Bindings& given) const {
  const std::vector<std::string> known = known_names(*this);
  for (const auto& [name, value] : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) return unknown(name, known);
    if (value < 1)
      return input_error(fmt::format("dimension '{}' must be at least 1, found {}", name, value),
                         fmt::format("give {} a size of 1 or more", name));
  }
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
      if (*value < 1)
        return place.error(
            d.span,
            fmt::format("dimension '{}' must be at least 1, found {} = {}", d.name, d.value->text(known), *value),
            fmt::format("change what it depends on, or give it with -d {}=…", d.name));
      values[d.name] = *value;
      progress = true;
    }
  }
  return values;
}

}  // namespace ridge
