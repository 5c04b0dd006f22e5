#include "ridge/roofline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/program/routine.h"

namespace ridge {

Result<DimensionSplit> parse_split(const std::string& text) {
  constexpr std::int64_t max_chips = 1 << 20;
  const std::size_t equals = text.find('=');
  DimensionSplit split{.dim = text.substr(0, equals)};
  const char* end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0) {
    const auto [rest, status] = std::from_chars(text.data() + equals + 1, end, split.chips);
    if (status == std::errc{} && rest == end && split.chips >= 1 && split.chips <= max_chips) return split;
  }
  return usage_error(
      fmt::format("expected DIMENSION=CHIPS with 1 to {} chips after --split, found '{}'", max_chips, text),
      "--split D=2");
}

Result<DimensionSplit> parse_splits(const std::vector<std::string>& texts) {
  std::optional<DimensionSplit> out;
  for (const std::string& text : texts) {
    RIDGE_TRY(one, parse_split(text));
    if (out && one.chips != out->chips)
      return usage_error(fmt::format("expected splits over the same chips, found {}={} and {}={}", out->dim, out->chips,
                                     one.dim, one.chips),
                         "split two dimensions over the same chips: --split F=8 --split H=8");
    if (out)
      out->other_splits.push_back(one);
    else
      out = std::move(one);
  }
  if (!out) return usage_error("expected DIMENSION=CHIPS after --split, found none", "--split D=2");
  return *std::move(out);
}

static std::vector<std::string> list_dims(const DimensionSplit& split) {
  std::vector<std::string> out{split.dim};
  for (const DimensionSplit& each : split.other_splits) out.push_back(each.dim);
  return out;
}

std::string format_dims(const DimensionSplit& split) {
  const std::vector<std::string> dims = list_dims(split);
  std::string out = dims.front();
  for (std::size_t i = 1; i < dims.size(); ++i) out += (i + 1 == dims.size() ? " and " : ", ") + dims[i];
  return out;
}

// Adds the dimensions that grouping ties to those in `out`: H and G = H/8 are split over the same chips.
static std::set<std::string> add_linked_dims(const Program& program, std::set<std::string> out) {
  for (std::size_t before = 0; before != out.size();) {
    before = out.size();
    for (const Statement& statement : program.statements) {
      const auto* product = std::get_if<Contraction>(&statement.op);
      if (!product || !product->grouped) continue;
      if (out.contains(product->grouped->dim)) out.insert(product->grouped->group);
      if (out.contains(product->grouped->group)) out.insert(product->grouped->dim);
    }
  }
  return out;
}

// Errors: there is no such dimension, or only sizes depend on it.
static Status validate_dim(const Program& program, const std::string& dim) {
  const std::vector<std::string> known = program.dim_names();
  if (!contains(known, dim))
    return usage_error(
        fmt::format("the program has no dimension '{}' to split; it has {}", dim, fmt::join(known, ", ")));
  std::vector<std::string> splittable;
  for (const std::string& each : known)
    if (std::any_of(program.tensors.begin(), program.tensors.end(),
                    [&](const Tensor& t) { return has_dim(t.axes, each); }))
      splittable.push_back(each);
  if (contains(splittable, dim)) return Done{};
  return usage_error(fmt::format("no tensor has dimension '{}', so splitting it changes nothing", dim),
                     fmt::format("split one of {}", fmt::join(splittable, ", ")));
}

Status validate_split(const Program& program, const DimensionSplit& split) {
  std::set<std::string> split_dims;
  for (const std::string& dim : list_dims(split)) {
    RIDGE_TRY_STATUS(validate_dim(program, dim));
    if (!split_dims.insert(dim).second)
      return usage_error(fmt::format("dimension '{}' is split twice", dim), "split it once");
    for (const Statement& statement : program.statements)
      if (const Reason why = split_unsupported_reason(program, statement, dim))
        return usage_error(fmt::format("'{}' cannot be split along {}: {}", statement.text, dim, why.text()),
                           "split another dimension");
  }
  split_dims = add_linked_dims(program, split_dims);
  for (const Tensor& tensor : program.tensors) {
    std::vector<std::string> split_axes;
    for (const Axis& axis : tensor.axes)
      if (split_dims.contains(axis.dim)) split_axes.push_back(axis.dim);
    if (split_axes.size() > 1)
      return usage_error(fmt::format("'{}' has both {} and {}, which cannot be split over the same chips", tensor.name,
                                     split_axes[0], split_axes[1]),
                         "write two mesh axes into the program: x: bf16[B_X, D_Y]");
  }
  return Done{};
}

Program shard_program(const Program& program, const DimensionSplit& split) {
  Program out = program;
  out.mesh.push_back({.name = split_axis, .size = split.chips});
  const std::vector<std::string> dims = list_dims(split);
  const std::set<std::string> split_dims = add_linked_dims(program, {dims.begin(), dims.end()});
  for (Tensor& tensor : out.tensors)
    for (Axis& each : tensor.axes)
      if (split_dims.contains(each.dim)) each.mesh = split_axis;
  for (Statement& statement : out.statements)
    if (auto* product = std::get_if<Contraction>(&statement.op))
      if (std::any_of(product->contracted.begin(), product->contracted.end(),
                      [&](const std::string& dim) { return split_dims.contains(dim); }))
        product->partial = split_axis;
  return out;
}

}  // namespace ridge
