#include "ridge/roofline/masks.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/roofline/regions/size_proof.h"
#include "ridge/roofline/routines/gathers.h"
#include "ridge/roofline/routines/routings.h"
#include "ridge/roofline/routines/windows.h"

namespace ridge {
namespace {

// Counts pairs with i - j >= c, 0 <= i < rows, 0 <= j < columns. Row i has min(columns, i - c + 1) of them.
__int128 count_pairs_from(__int128 c, __int128 rows, __int128 columns) {
  const __int128 first = std::max<__int128>(0, c);
  if (first >= rows) return 0;
  const __int128 first_row_pairs = first - c + 1, last_row_pairs = rows - c;
  const auto triangle = [](__int128 n) { return n * (n + 1) / 2; };
  if (first_row_pairs >= columns) return (rows - first) * columns;
  if (last_row_pairs <= columns) return triangle(last_row_pairs) - triangle(first_row_pairs - 1);
  return triangle(columns) - triangle(first_row_pairs - 1) + (last_row_pairs - columns) * columns;
}

// Counts the pairs with both indices in the same sequence; the sequences are contiguous along both dimensions.
std::optional<std::int64_t> count_sequence_pairs(const IndexMask& mask, __int128 lower, __int128 upper) {
  __int128 count = 0, row = 0, column = 0;
  for (std::size_t i = 0; i < std::min(mask.row_lengths.size(), mask.column_lengths.size()); ++i) {
    const std::int64_t rows = mask.row_lengths[i], columns = mask.column_lengths[i];
    const __int128 shift = row - column;
    count += count_pairs_from(lower - shift, rows, columns) - count_pairs_from(upper + 1 - shift, rows, columns);
    row += rows;
    column += columns;
  }
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

// Counts the indices from the lower to the upper bound.
std::optional<std::int64_t> count_indices(const IndexMask& mask, const Bindings& dims) {
  const auto size = dims.find(mask.rows);
  if (size == dims.end()) return std::nullopt;
  std::int64_t first = 0, last = size->second - 1;
  for (const auto* bound : {&mask.lower, &mask.upper}) {
    if (!*bound) continue;
    const auto value = (*bound)->evaluate(dims);
    if (!value) return std::nullopt;
    if (bound == &mask.lower)
      first = std::max(first, *value);
    else
      last = std::min(last, *value);
  }
  return first > last ? 0 : last - first + 1;
}

}  // namespace

std::string make_unused_symbol(const Program& program, std::string symbol) {
  const std::vector<std::string> dims = program.dim_names();
  while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(symbol); }))
    symbol += "_";
  return symbol;
}

ProgramMasks find_masks(const Program& program) {
  ProgramMasks out;
  out.statements.resize(program.statements.size());
  add_index_masks(program, out);
  add_gather_masks(program, out);
  add_window_masks(program, out);
  add_routing_masks(program, out);
  return out;
}

std::vector<std::string> counted_dims(const IndexMask& mask) {
  if (mask.region) return mask.region->dims;
  if (mask.columns.empty()) return {mask.rows};
  return {mask.rows, mask.columns};
}

std::vector<std::string> dependency_dims(const IndexMask& mask) {
  if (mask.window) return dependency_dims(*mask.window);
  if (mask.routing) return dependency_dims(*mask.routing);
  if (mask.gathered) return dependency_dims(*mask.gathered);
  if (mask.region) return dependency_dims(*mask.region);
  std::vector<std::string> out = counted_dims(mask);
  for (const auto* bound : {&mask.lower, &mask.upper})
    if (*bound)
      for (std::string& symbol : (*bound)->symbols()) out.push_back(std::move(symbol));
  return out;
}

std::optional<std::int64_t> count_unmasked(const IndexMask& mask, const Bindings& dims) {
  if (mask.window) return count_window(*mask.window, mask.window_count, dims);
  if (mask.routing) return count_routing(*mask.routing, mask.routing_count, dims);
  if (mask.gathered) return count_gathered(*mask.gathered, dims);
  if (mask.region) return count_region(*mask.region, dims);
  if (mask.columns.empty()) return count_indices(mask, dims);
  const auto rows = dims.find(mask.rows), columns = dims.find(mask.columns);
  if (rows == dims.end() || columns == dims.end()) return std::nullopt;
  constexpr std::int64_t largest = std::int64_t{1} << 62;
  if (rows->second >= largest || columns->second >= largest) return std::nullopt;
  std::optional<std::int64_t> lower = -columns->second, upper = rows->second;
  for (const auto& [bound, value] : {std::pair{&mask.lower, &lower}, {&mask.upper, &upper}}) {
    if (!*bound) continue;
    const auto found = (*bound)->evaluate(dims);
    if (!found) return std::nullopt;
    *value = std::clamp(*found, -largest, largest);
  }
  if (*lower > *upper) return 0;
  if (!mask.row_lengths.empty()) return count_sequence_pairs(mask, *lower, *upper);
  const __int128 count = count_pairs_from(*lower, rows->second, columns->second) -
                         count_pairs_from(static_cast<__int128>(*upper) + 1, rows->second, columns->second);
  if (count > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(count);
}

// True if the program sets a dimension to another one, and the request leaves it so.
static bool is_set_to(const Program& program, const Bindings& given, const std::string& dim, const std::string& other) {
  if (given.contains(dim)) return false;
  return std::any_of(program.dims.begin(), program.dims.end(), [&](const Dimension& d) {
    return d.name == dim && d.value && *d.value == Polynomial::make_symbol(other);
  });
}

static std::optional<Polynomial> triangle_closed_form(const IndexMask& mask, const Program& program,
                                                      const Bindings& given) {
  const bool follows = is_set_to(program, given, mask.rows, mask.columns);
  const bool tied = follows || is_set_to(program, given, mask.columns, mask.rows);
  if (!tied || mask.lower.has_value() == mask.upper.has_value()) return std::nullopt;
  const std::optional<Rational> offset = mask.lower ? mask.lower->as_constant() : mask.upper->as_constant();
  const bool is_lower_bound = mask.lower.has_value();
  const Rational strict = is_lower_bound ? 1 : -1;  // Bound on i - j that excludes i = j
  if (!offset || (!offset->is_zero() && *offset != strict)) return std::nullopt;
  const Polynomial n = Polynomial::make_symbol(follows ? mask.columns : mask.rows);
  return (n * n + n * (offset->is_zero() ? 1 : -1)) * Rational(1, 2);
}

std::optional<std::int64_t> count_unmasked(const IndexMask& mask, const Bindings& dims, std::int64_t& work_left) {
  return mask.region ? count_region(*mask.region, dims, work_left) : count_unmasked(mask, dims);
}

std::optional<Polynomial> mask_closed_form(const IndexMask& mask, const Program& program, const Bindings& given) {
  if (mask.window || mask.routing || mask.gathered || !mask.row_lengths.empty()) return std::nullopt;
  if (!mask.region && !mask.columns.empty()) return triangle_closed_form(mask, program, given);
  std::map<std::string, Polynomial> ties;
  for (const Dimension& d : program.dims)
    if (d.value && !given.contains(d.name)) ties.emplace(d.name, *d.value);
  const SizeProof proof(ties);
  if (mask.region)
    return proof.is_everything(*mask.region) ? std::optional(Polynomial::make_term(1, mask.region->dims))
                                             : std::nullopt;
  const Polynomial size = Polynomial::make_symbol(mask.rows);
  const bool is_full = (!mask.lower || proof.is_at_least_zero(Polynomial() - *mask.lower)) &&
                       (!mask.upper || proof.is_at_least_zero(*mask.upper + 1 - size));
  return is_full ? std::optional(size) : std::nullopt;
}

// "0 <= index(S) - index(T) <= 3"
static std::string format_bounds(const IndexMask& mask, std::string text) {
  if (mask.lower) text = fmt::format("{} <= {}", mask.lower->to_string(), text);
  if (mask.upper) text = fmt::format("{} <= {}", text, mask.upper->to_string());
  return text;
}

std::string format_mask(const IndexMask& mask) {
  if (mask.window) return format_window(*mask.window, mask.window_count);
  if (mask.routing) return fmt::format("over {}", mask.columns);
  if (mask.gathered) return fmt::format("over {}", mask.rows);
  if (mask.region) return mask.region->region.to_string();
  if (mask.columns.empty()) return format_bounds(mask, fmt::format("index({})", mask.rows));
  const std::string same = fmt::format("sequence({}) == sequence({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty() && !mask.lower && !mask.upper) return same;
  std::string out = fmt::format("index({}) - index({})", mask.rows, mask.columns);
  if (!mask.row_lengths.empty()) out += ", " + same;
  return format_bounds(mask, out);
}

}  // namespace ridge
