#include "ridge/api/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ridge/base/text.h"

namespace ridge::api {
namespace {

std::vector<Polynomial> extents_of(const std::vector<Axis>& axes) {
  std::vector<Polynomial> out;
  for (const Axis& axis : axes) out.push_back(axis.extent());
  return out;
}

Asked asked_of(const Program& program, int tensor) {
  const Tensor& t = program.tensors[static_cast<std::size_t>(tensor)];
  return {t.name, t.dtype, extents_of(t.axes), {tensor}};
}

Asked asked_of(const Stack& stack) {
  Asked out{stack.name, stack.dtype, {stack.rows}, stack.parts};
  for (const Axis& axis : stack.behind) out.extents.push_back(axis.extent());
  return out;
}

std::string names_of(const std::vector<Asked>& asked) {
  std::vector<std::string> names;
  for (const Asked& each : asked) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Error unknown(const std::string& name, const std::vector<Asked>& asked) {
  std::vector<std::string> names;
  for (const Asked& each : asked) names.push_back(each.name);
  const std::string near = nearest(name, names);
  return input_error(fmt::format("unknown input '{}'; expected one of {}", name, names_of(asked)),
                     near.empty() ? "" : fmt::format("did you mean {}?", near));
}

// The place of the input that an array is for.
Result<std::size_t> place_of(const ArrayType& array, std::size_t at, const std::vector<Asked>& asked) {
  if (array.name.empty()) {
    if (at < asked.size()) return at;
    return input_error(fmt::format("expected {} arrays at most, for {}; found more", asked.size(), names_of(asked)));
  }
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (asked[i].name == array.name) return i;
  return unknown(array.name, asked);
}

std::string text_of(const std::vector<Polynomial>& extents) {
  std::vector<std::string> texts;
  for (const Polynomial& extent : extents) texts.push_back(extent.text());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Reads sizes off arrays, one after the other.
class Sizes {
 public:
  Sizes(const Program& program, const Bindings& dims) : program_(program), dims_(dims) {
    for (const auto& [name, value] : dims) from_[name] = "";
  }

  Status read(const Asked& asked, const ArrayType& array) {
    if (array.dtype != asked.dtype)
      return input_error(
          fmt::format("'{}' is {}; expected {}, as the program says", asked.name, name(array.dtype), name(asked.dtype)),
          "declare the array's dtype in the program, or give another array");
    if (array.shape.size() != asked.extents.size())
      return input_error(fmt::format("'{}' has shape [{}]; expected {} axes, {}", asked.name,
                                     fmt::join(array.shape, ", "), asked.extents.size(), text_of(asked.extents)));
    for (std::size_t i = 0; i < array.shape.size(); ++i) {
      if (array.shape[i] < 1)
        return input_error(fmt::format("'{}' has shape [{}]; expected every extent to be at least 1", asked.name,
                                       fmt::join(array.shape, ", ")));
      if (const Status taken = take(asked, asked.extents[i], array.shape[i]); !taken) return taken;
    }
    return Done{};
  }

  Result<Bindings> bound() const { return program_.bind(dims_); }

 private:
  // An extent that is one dimension, or several of it as a stack's 2*F, gives it a value.
  Status take(const Asked& asked, const Polynomial& extent, std::int64_t value) {
    if (extent.terms().size() != 1) return Done{};  // checked once all dimensions have a value
    const auto& [symbols, times] = *extent.terms().begin();
    if (symbols.size() != 1 || symbols.front().second != 1) return Done{};
    const auto each = Polynomial(times).evaluate({});
    if (!each || *each < 1 || value % *each != 0) return Done{};
    return set(asked.name, symbols.front().first, value / *each);
  }

  Status set(const std::string& array, const std::string& dim, std::int64_t value) {
    const auto [entry, is_new] = dims_.try_emplace(dim, value);
    if (is_new) from_[dim] = array;
    if (entry->second == value) return Done{};
    const std::string& other = from_[dim];
    return input_error(fmt::format("dimension '{}' is {} {} and {} in '{}'; expected one size", dim, entry->second,
                                   other.empty() ? "as given" : fmt::format("in '{}'", other), value, array));
  }

  const Program& program_;
  Bindings dims_;
  std::map<std::string, std::string> from_;  // dimension -> the array that said it
};

Status fits(const Asked& asked, const ArrayType& array, const Bindings& dims) {
  for (std::size_t i = 0; i < array.shape.size(); ++i) {
    const auto extent = asked.extents[i].evaluate(dims);
    if (!extent) return extent.error();
    if (*extent != array.shape[i])
      return input_error(fmt::format("'{}' has shape [{}]; expected {} = {} along axis {}", asked.name,
                                     fmt::join(array.shape, ", "), asked.extents[i].text(), *extent, i));
  }
  return Done{};
}

}  // namespace

std::vector<Asked> inputs_asked(const Program& program) {
  std::vector<Asked> out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if (program.tensors[i].role != Role::input) continue;
    const Stack* const stack = stack_of(program, static_cast<int>(i));
    if (!stack)
      out.push_back(asked_of(program, static_cast<int>(i)));
    else if (stack->parts.front() == static_cast<int>(i))
      out.push_back(asked_of(*stack));
  }
  return out;
}

Result<std::vector<Asked>> outputs_asked(const Program& program, const std::vector<std::string>& wanted) {
  std::vector<Asked> written, out;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    const Role role = program.tensors[i].role;
    if (role != Role::input) written.push_back(asked_of(program, static_cast<int>(i)));
    if (role == Role::output) out.push_back(written.back());
  }
  if (wanted.empty()) return out;
  out.clear();
  for (const std::string& name : wanted) {
    const auto found =
        std::find_if(written.begin(), written.end(), [&](const Asked& each) { return each.name == name; });
    if (found == written.end())
      return input_error(fmt::format("unknown result '{}'; expected one of {}", name, names_of(written)));
    if (std::count(wanted.begin(), wanted.end(), name) > 1)
      return input_error(fmt::format("expected result '{}' once, found it twice", name));
    out.push_back(*found);
  }
  return out;
}

Result<std::vector<std::size_t>> matched(const std::vector<Asked>& asked, const std::vector<ArrayType>& given) {
  std::vector<std::optional<std::size_t>> found(asked.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = place_of(given[i], i, asked);
    if (!place) return place.error();
    if (found[*place])
      return input_error(fmt::format("expected one array for input '{}', found two", asked[*place].name));
    found[*place] = i;
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!found[i])
      return input_error(fmt::format("expected an array for input '{}', found none; the inputs are {}", asked[i].name,
                                     names_of(asked)));
    out.push_back(*found[i]);
  }
  return out;
}

Result<Bindings> sizes_of(const Program& program, const std::vector<Asked>& asked, const std::vector<ArrayType>& given,
                          const Bindings& dims) {
  Sizes sizes(program, dims);
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (const Status read = sizes.read(asked[i], given[i]); !read) return read.error();
  auto bound = sizes.bound();
  if (!bound) return bound;
  for (const Dimension& dim : program.dims)
    if (!bound->contains(dim.name))
      return input_error(fmt::format("dimension '{}' has no value; expected one, for no array has it", dim.name),
                         fmt::format("give it with the call: {} = 64", dim.name));
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (const Status fit = fits(asked[i], given[i], *bound); !fit) return fit.error();
  return bound;
}

}  // namespace ridge::api
