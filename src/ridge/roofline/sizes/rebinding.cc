#include "ridge/roofline/sizes/rebinding.h"

#include <charconv>

#include "ridge/roofline/split.h"

namespace ridge {
namespace {

constexpr int most_searches = 64;  // of thresholds, some milliseconds each

bool is_largest_part(const std::string& name) { return name.starts_with("ceil("); }

std::string dimension_of(const std::string& part) { return part.substr(5, part.find('/') - 5); }

// Of "ceil(D/4)".
std::int64_t equal_part(const std::string& name, const Bindings& dims) {
  const std::size_t slash = name.find('/');
  std::int64_t parts = 1;
  std::from_chars(name.data() + slash + 1, name.data() + name.size() - 1, parts);
  const auto size = dims.find(dimension_of(name));
  return size == dims.end() ? 1 : (size->second + parts - 1) / parts;
}

Rebinding rebinding(const Program& program, const Program& lies, const Bindings& given, const Explanation& e) {
  return [&program, &lies, given, &e](const std::string& dim, std::int64_t value) -> std::optional<Bindings> {
    Bindings asked = given;
    asked[dim] = value;
    auto dims = program.bind(asked);
    if (!dims) return std::nullopt;
    if (e.split) (*dims)[split_axis] = e.split->chips;
    for (const auto& [name, size] : e.dims)  // largest parts, also of what now falls into equal ones
      if (is_largest_part(name)) dims->insert({name, equal_part(name, *dims)});
    for (const auto& [name, part] : largest_parts(lies, *dims)) (*dims)[name] = part;
    for (const MaskCount& each : e.masks) {
      if (each.through != Polynomial::symbol(each.mask.symbol)) continue;
      const auto count = pairs(each.mask, *dims);
      if (!count) return std::nullopt;
      (*dims)[each.mask.symbol] = *count;
    }
    return *std::move(dims);
  };
}

}  // namespace

Ways ways_of(const Program& program, const Program& lies, const Bindings& given, const Explanation& e) {
  Ways out{.followers = followers(program, given)};
  for (const auto& [name, size] : e.dims)
    if (is_largest_part(name)) out.counted[name] = {dimension_of(name)};
  for (const MaskCount& each : e.masks)
    if (each.through == Polynomial::symbol(each.mask.symbol)) out.counted[each.mask.symbol] = hangs_on(each.mask);
  out.searches = std::make_shared<int>(most_searches);
  out.rebind = rebinding(program, lies, given, e);
  return out;
}

}  // namespace ridge
