#include "ridge/api/argument_specs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ridge/base/string_util.h"

namespace ridge::api {
namespace {

std::vector<Polynomial> axis_extents(const std::vector<Axis>& axes) {
  std::vector<Polynomial> out;
  for (const Axis& axis : axes) out.push_back(axis.extent());
  return out;
}

ArgumentSpec make_spec(const Program& program, int tensor) {
  const Tensor& t = program.tensors[tensor];
  return {t.name, t.dtype, axis_extents(t.axes), {tensor}};
}

ArgumentSpec make_spec(const StackedInput& stack) {
  ArgumentSpec out{stack.name, stack.dtype, {stack.rows}, stack.parts};
  for (const Axis& axis : stack.other_axes) out.extents.push_back(axis.extent());
  return out;
}

std::string join_names(const std::vector<ArgumentSpec>& specs) {
  std::vector<std::string> names;
  for (const ArgumentSpec& each : specs) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Error unknown_input_error(const std::string& name, const std::vector<ArgumentSpec>& specs) {
  std::vector<std::string> names;
  for (const ArgumentSpec& each : specs) names.push_back(each.name);
  const std::string suggestion = find_nearest(name, names);
  return input_error(fmt::format("unknown input '{}'; expected one of {}", name, join_names(specs)),
                     suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion));
}

// Returns the index of the input that an array belongs to.
Result<std::size_t> find_input(const ArrayType& array, std::size_t at, const std::vector<ArgumentSpec>& specs) {
  if (array.name.empty()) {
    if (at < specs.size()) return at;
    return input_error(fmt::format("expected {} arrays at most, for {}; found more", specs.size(), join_names(specs)));
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name == array.name) return i;
  return unknown_input_error(array.name, specs);
}

std::string format_extents(const std::vector<Polynomial>& extents) {
  std::vector<std::string> texts;
  for (const Polynomial& extent : extents) texts.push_back(extent.to_string());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Determines the values of dimensions from the shapes of arrays.
class DimensionSolver {
 public:
  DimensionSolver(const Program& program, const Bindings& dims) : program_(program), dims_(dims) {
    for (const auto& [name, value] : dims) source_array_[name] = "";
  }

  Status add_array(const ArgumentSpec& spec, const ArrayType& array) {
    if (array.dtype != spec.dtype)
      return input_error(fmt::format("'{}' is {}; expected {}, as the program says", spec.name, dtype_name(array.dtype),
                                     dtype_name(spec.dtype)),
                         "declare the array's dtype in the program, or give another array");
    if (array.shape.size() != spec.extents.size())
      return input_error(fmt::format("'{}' has shape [{}]; expected {} axes, {}", spec.name,
                                     fmt::join(array.shape, ", "), spec.extents.size(), format_extents(spec.extents)));
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
      if (array.shape[i] < 1)
        return input_error(fmt::format("'{}' has shape [{}]; expected every extent to be at least 1", spec.name,
                                       fmt::join(array.shape, ", ")));
      RIDGE_TRY_STATUS(solve_extent(spec, spec.extents[i], array.shape[i]));
    }
    return Done{};
  }

  Result<Bindings> bind_all() const { return program_.bind_sizes(dims_); }

 private:
  // Derives a dimension's value from an extent that is a multiple of it, such as a stack's 2*F.
  Status solve_extent(const ArgumentSpec& spec, const Polynomial& extent, std::int64_t value) {
    if (extent.terms().size() != 1) return Done{};  // `check_shape` checks it later
    const auto& [symbols, factor] = *extent.terms().begin();
    if (symbols.size() != 1 || symbols.front().second != 1) return Done{};
    const auto multiple = Polynomial(factor).evaluate({});
    if (!multiple || *multiple < 1 || value % *multiple != 0) return Done{};
    return set_dimension(spec.name, symbols.front().first, value / *multiple);
  }

  Status set_dimension(const std::string& array, const std::string& dim, std::int64_t value) {
    const auto [entry, is_new] = dims_.try_emplace(dim, value);
    if (is_new) source_array_[dim] = array;
    if (entry->second == value) return Done{};
    const std::string& other = source_array_[dim];
    return input_error(fmt::format("dimension '{}' is {} {} and {} in '{}'; expected one size", dim, entry->second,
                                   other.empty() ? "as given" : fmt::format("in '{}'", other), value, array));
  }

  const Program& program_;
  Bindings dims_;
  std::map<std::string, std::string> source_array_;  // Dimension -> array that determined it
};

Status check_shape(const ArgumentSpec& spec, const ArrayType& array, const Bindings& dims) {
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    RIDGE_TRY(extent, spec.extents[i].evaluate(dims));
    if (extent != array.shape[i])
      return input_error(fmt::format("'{}' has shape [{}]; expected {} = {} along axis {}", spec.name,
                                     fmt::join(array.shape, ", "), spec.extents[i].to_string(), extent, i));
  }
  return Done{};
}

}  // namespace

std::vector<ArgumentSpec> input_specs(const Program& program) {
  std::vector<ArgumentSpec> out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role != TensorRole::input) continue;
    const StackedInput* const stack = stack_of(program, static_cast<int>(i));
    if (!stack)
      out.push_back(make_spec(program, static_cast<int>(i)));
    else if (stack->parts.front() == static_cast<int>(i))
      out.push_back(make_spec(*stack));
  }
  return out;
}

Result<std::vector<ArgumentSpec>> output_specs(const Program& program, const std::vector<std::string>& requested) {
  std::vector<ArgumentSpec> results, out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const TensorRole role = program.tensors[i].role;
    if (role != TensorRole::input) results.push_back(make_spec(program, static_cast<int>(i)));
    if (role == TensorRole::output) out.push_back(results.back());
  }
  if (requested.empty()) return out;
  out.clear();
  for (const std::string& name : requested) {
    const auto found =
        std::find_if(results.begin(), results.end(), [&](const ArgumentSpec& each) { return each.name == name; });
    if (found == results.end())
      return input_error(fmt::format("unknown result '{}'; expected one of {}", name, join_names(results)));
    if (std::count(requested.begin(), requested.end(), name) > 1)
      return input_error(fmt::format("expected result '{}' once, found it twice", name));
    out.push_back(*found);
  }
  return out;
}

Result<std::vector<std::size_t>> match_arrays(const std::vector<ArgumentSpec>& specs,
                                              const std::vector<ArrayType>& given) {
  std::vector<std::optional<std::size_t>> found(specs.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    RIDGE_TRY(index, find_input(given[i], i, specs));
    if (found[index])
      return input_error(fmt::format("expected one array for input '{}', found two", specs[index].name));
    found[index] = i;
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!found[i])
      return input_error(fmt::format("expected an array for input '{}', found none; the inputs are {}", specs[i].name,
                                     join_names(specs)));
    out.push_back(*found[i]);
  }
  return out;
}

Result<Bindings> solve_dimensions(const Program& program, const std::vector<ArgumentSpec>& specs,
                                  const std::vector<ArrayType>& given, const Bindings& dims) {
  DimensionSolver solver(program, dims);
  for (std::size_t i = 0; i < specs.size(); ++i) RIDGE_TRY_STATUS(solver.add_array(specs[i], given[i]));
  auto bindings = solver.bind_all();
  if (!bindings) return bindings;
  for (const Dimension& dim : program.dims)
    if (!bindings->contains(dim.name))
      return input_error(fmt::format("dimension '{}' has no value, because no array has it", dim.name),
                         fmt::format("pass {} = 64", dim.name));
  for (std::size_t i = 0; i < specs.size(); ++i) RIDGE_TRY_STATUS(check_shape(specs[i], given[i], *bindings));
  return bindings;
}

}  // namespace ridge::api
