#include "ridge/roofline/sizes/region_formulas.h"

#include <algorithm>
#include <array>
#include <optional>

namespace ridge {
namespace {

// Tokens, chunks, and tokens of a chunk, with the sizes that equal each.
struct EqualSizes {
  const char* name;
  std::array<std::string_view, 2> all;
};
constexpr std::array<EqualSizes, 3> equal_sizes{{{"ST", {"S", "ST"}}, {"SC", {"SC", "SP"}}, {"SL", {"SL", "SK"}}}};
using Point = std::array<std::int64_t, equal_sizes.size()>;

// Sizes beyond all windows, at which polynomials of degree 2 are determined.
constexpr std::array<std::int64_t, 3> nodes{16, 17, 19};
// Further sizes: few tokens and chunks, and many.
constexpr std::array<Point, 7> checked{
    {{4, 1, 4}, {5, 1, 5}, {64, 1, 64}, {65, 2, 64}, {130, 3, 64}, {1000, 4, 256}, {70001, 1094, 64}}};

std::optional<std::int64_t> count_at(const FlatMask& mask, const Point& point) {
  Bindings sizes = mask.constants;
  for (const auto& [name, index] : mask.indexed) {
    const auto equal = std::find_if(equal_sizes.begin(), equal_sizes.end(), [&](const EqualSizes& each) {
      return std::find(each.all.begin(), each.all.end(), name) != each.all.end();
    });
    if (equal == equal_sizes.end()) return std::nullopt;
    sizes[name] = point[static_cast<std::size_t>(equal - equal_sizes.begin())];
  }
  return count_unmasked(mask.mask, sizes);
}

// Returns the polynomial that is 1 at one node and 0 at the others (Lagrange).
Polynomial make_basis(const std::string& name, std::size_t node) {
  Polynomial out = 1;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (i != node)
      out = out * (Polynomial::make_symbol(name) - Polynomial(nodes[i])) * Rational(1, nodes[node] - nodes[i]);
  return out;
}

std::optional<Polynomial> interpolate(const FlatMask& mask) {
  Polynomial out;
  for (std::size_t t = 0; t < nodes.size(); ++t)
    for (std::size_t c = 0; c < nodes.size(); ++c)
      for (std::size_t l = 0; l < nodes.size(); ++l) {
        const auto count = count_at(mask, {nodes[t], nodes[c], nodes[l]});
        if (!count) return std::nullopt;
        out += make_basis("ST", t) * make_basis("SC", c) * make_basis("SL", l) * Polynomial(*count);
      }
  for (const Point& point : checked) {
    Bindings sizes;
    for (std::size_t i = 0; i < point.size(); ++i) sizes[equal_sizes[i].name] = point[i];
    const auto value = out.evaluate_count(sizes);
    const auto count = count_at(mask, point);
    if (!value || !count || std::max<Count>(*value, 0) != *count) return std::nullopt;
  }
  return out;
}

}  // namespace

bool replace_regions(FlatSizes& sizes) {
  std::vector<std::pair<std::size_t, Polynomial>> found;
  for (std::size_t i = 0; i < sizes.computed().size(); ++i) {
    const auto& mask = sizes.computed()[i].mask;
    if (!mask || !mask->mask.region) continue;
    const auto polynomial = interpolate(*mask);
    if (!polynomial) return false;
    found.emplace_back(i, *polynomial);
  }
  for (const auto& [i, polynomial] : found)
    sizes.computed()[i] = {.count = sizes.compile(polynomial), .low = sizes.compile(Polynomial())};
  return true;
}

}  // namespace ridge
