#include "ridge/roofline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ridge/program/routine.h"

namespace ridge {

Result<Split> parse_split(const std::string& text) {
  constexpr std::int64_t most = 1 << 20;
  const std::size_t equals = text.find('=');
  Split split{.dim = text.substr(0, equals)};
  const char* end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0) {
    const auto [rest, status] = std::from_chars(text.data() + equals + 1, end, split.chips);
    if (status == std::errc{} && rest == end && split.chips >= 1 && split.chips <= most) return split;
  }
  return usage_error(fmt::format("expected DIMENSION=CHIPS with 1 to {} chips after --split, found '{}'", most, text),
                     "--split D=2");
}

Result<Split> parse_splits(const std::vector<std::string>& texts) {
  std::optional<Split> out;
  for (const std::string& text : texts) {
    auto one = parse_split(text);
    if (!one) return one.error();
    if (out && one->chips != out->chips)
      return usage_error(fmt::format("expected splits over the same chips, found {}={} and {}={}", out->dim, out->chips,
                                     one->dim, one->chips),
                         "two splits cut two dimensions over the same chips, such as --split F=8 --split H=8");
    if (out)
      out->also.push_back(*one);
    else
      out = *std::move(one);
  }
  if (!out) return usage_error("expected DIMENSION=CHIPS after --split, found none", "--split D=2");
  return *std::move(out);
}

static std::vector<std::string> dims_of(const Split& split) {
  std::vector<std::string> out{split.dim};
  for (const Split& each : split.also) out.push_back(each.dim);
  return out;
}

std::string dims_text(const Split& split) {
  const std::vector<std::string> dims = dims_of(split);
  std::string out = dims.front();
  for (std::size_t i = 1; i < dims.size(); ++i) out += (i + 1 == dims.size() ? " and " : ", ") + dims[i];
  return out;
}

// A dimension, and those whose groups or wholes it is: H and G = H/8 lie on the same chips.
static std::set<std::string> cut_with(const Program& program, std::set<std::string> out) {
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

static bool has(const Tensor& tensor, const std::string& dim) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

// No such dimension, or one of which only sizes are made.
static std::optional<Error> refuse_absent(const Program& program, const std::string& dim) {
  const std::vector<std::string> known = program.dim_names();
  if (std::find(known.begin(), known.end(), dim) == known.end())
    return usage_error(
        fmt::format("the program has no dimension '{}' to split; it has {}", dim, fmt::join(known, ", ")));
  std::vector<std::string> there;
  for (const std::string& each : known)
    if (std::any_of(program.tensors.begin(), program.tensors.end(), [&](const Tensor& t) { return has(t, each); }))
      there.push_back(each);
  if (std::find(there.begin(), there.end(), dim) != there.end()) return std::nullopt;
  return usage_error(fmt::format("no tensor has dimension '{}', so that splitting it changes nothing", dim),
                     fmt::format("split one of {}", fmt::join(there, ", ")));
}

std::optional<Error> refuse_split(const Program& program, const Split& split) {
  std::set<std::string> cut;
  for (const std::string& dim : dims_of(split)) {
    if (auto absent = refuse_absent(program, dim)) return absent;
    if (!cut.insert(dim).second) return usage_error(fmt::format("dimension '{}' is split twice", dim), "once will do");
    for (const Statement& statement : program.statements)
      if (const std::string why = uncuttable(program, statement, dim); !why.empty())
        return usage_error(fmt::format("'{}' cannot be split along {}: {}", statement.text, dim, why),
                           "split another dimension");
  }
  cut = cut_with(program, cut);
  for (const Tensor& tensor : program.tensors) {
    std::vector<std::string> here;
    for (const Axis& axis : tensor.axes)
      if (cut.contains(axis.dim)) here.push_back(axis.dim);
    if (here.size() > 1)
      return usage_error(fmt::format("'{}' has both {} and {}, which cannot be split over the same chips", tensor.name,
                                     here[0], here[1]),
                         "a program that is sharded over two axes of a mesh says so itself: x: bf16[B_X, D_Y]");
  }
  return std::nullopt;
}

Program sharded(const Program& program, const Split& split) {
  Program out = program;
  out.mesh.push_back({.name = split_axis, .size = split.chips});
  const std::vector<std::string> dims = dims_of(split);
  const std::set<std::string> cut = cut_with(program, {dims.begin(), dims.end()});
  for (Tensor& tensor : out.tensors)
    for (Axis& each : tensor.axes)
      if (cut.contains(each.dim)) each.mesh = split_axis;
  for (Statement& statement : out.statements)
    if (auto* product = std::get_if<Contraction>(&statement.op))
      if (std::any_of(product->contracted.begin(), product->contracted.end(),
                      [&](const std::string& dim) { return cut.contains(dim); }))
        product->partial = split_axis;
  return out;
}

std::vector<Work> count(const Program& program, const Split& split, Bindings sizes) {
  sizes[split_axis] = split.chips;
  std::vector<Work> work = count(sharded(program, split), sizes);
  for (Work& each : work) each.collective.clear();  // named after the axis
  return work;
}

}  // namespace ridge
