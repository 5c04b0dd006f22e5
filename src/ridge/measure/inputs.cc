#include "ridge/measure/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/text.h"
#include "ridge/measure/memory.h"
#include "ridge/measure/npy.h"
#include "ridge/plan/shape.h"
#include "ridge/program/routine.h"
#include "ridge/program/weights.h"

namespace ridge {
namespace {

void count_up(const Buffer& buffer, const Array& array) {
  const std::vector<float> counts = counts_of(buffer);
  std::copy(counts.begin(), counts.end(), reinterpret_cast<float*>(array.data));
}

// The shortest dimension that an input's values index, and its size.
struct Pointed {
  Axis axis;
  std::int64_t size = 0;
};
std::optional<Pointed> pointed_along(const Program& program, const Bindings& dims, int input) {
  std::optional<Pointed> out;
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!routine) continue;
    const Word word = routine->word;
    if (word != Word::gather && word != Word::scatter && word != Word::routed) continue;
    if (operands(statement).back() != input) continue;
    const Axis& over = routine->over.front();
    const std::int64_t size = over.named() ? dims.at(over.dim) : over.literal;
    if (!out || size < out->size) out = {over, size};
  }
  return out;
}

class Filler {
 public:
  explicit Filler(const FillRequest& request) : of_(request) {}

  Status fill() const {
    for (const Stack& whole : of_.program.stacks)
      if (const auto file = of_.in.find(whole.name); file != of_.in.end())
        if (const Status read = read_parts(whole, file->second); !read) return read;
    for (std::size_t i = 0; i < of_.arrays.size(); ++i) {
      const bool given = i < of_.program.tensors.size() && of_.program.tensors[i].role == Role::input;
      if (!given) {
        poison(of_.arrays[i], of_.threads);
        if (of_.buffers[i].counts) count_up(of_.buffers[i], of_.arrays[i]);
      } else if (const Status filled = fill_input(static_cast<int>(i)); !filled) {
        return filled;
      }
    }
    return Done{};
  }

  Status fill_input(int i) const {
    const Tensor& input = of_.program.tensors[static_cast<std::size_t>(i)];
    const Stack* const whole = stack_of(of_.program, i);
    if (whole && of_.in.contains(whole->name)) return check_indices(of_.program, of_.dims, i, array(i));
    const std::optional<Pointed> pointed = pointed_along(of_.program, of_.dims, i);
    if (of_.filling) of_.filling(static_cast<double>(i) / static_cast<double>(of_.arrays.size()), input.name);
    const auto file = of_.in.find(input.name);
    if (file != of_.in.end()) {
      const Status read = read_npy(file->second, array(i), extents_of(i));
      return read ? check_indices(of_.program, of_.dims, i, array(i)) : read;
    }
    if (pointed) {
      fill_indices(array(i), of_.seed, i, pointed->size);
      return Done{};
    }
    const DType dtype = array(i).dtype;
    const bool has_normal =
        dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::int8 || is_scaled(dtype);
    if (const std::int64_t longest = longest_beside(i); dtype == DType::int32 && longest > 0) {
      fill_indices(array(i), of_.seed, i, longest);
      for (std::int64_t at = 0; at < array(i).elements; ++at) ++reinterpret_cast<std::int32_t*>(array(i).data)[at];
      return Done{};
    }
    if (!has_normal) {  // no kernel reads it
      poison(array(i), of_.threads);
      return Done{};
    }
    fill_normal(array(i), of_.seed, i, of_.threads, deviation(i));
    return Done{};
  }

 private:
  // Returns the longest dimension with an index in an expression that reads the input: integers there are lengths from
  // 1 to its size. Returns 0 if no expression reads the input.
  std::int64_t longest_beside(int input) const {
    std::int64_t out = 0;
    for (const Statement& statement : of_.program.statements) {
      const auto* const e = std::get_if<Expression>(&statement.op);
      const std::vector<int> in = operands(statement);
      if (e == nullptr || std::find(in.begin(), in.end(), input) == in.end()) continue;
      out = std::max<std::int64_t>(out, 1);
      for (const Node& node : e->nodes)
        if (node.kind == Node::Kind::index && node.over[0].named()) out = std::max(out, of_.dims.at(node.over[0].dim));
    }
    return out;
  }
  const Array& array(int i) const { return of_.arrays[static_cast<std::size_t>(i)]; }
  std::vector<std::int64_t> extents_of(int tensor) const {
    return extents(shape(of_.program.tensors[static_cast<std::size_t>(tensor)], of_.dims).value());
  }

  // Returns the standard deviation of an input's random numbers: 1, but 1 / sqrt(K) for constant weights, as models are
  // initialised, so that a layer's results have the size of its inputs. With 1, results grow by sqrt(K) per layer, and
  // activations then produce subnormal numbers, which cost the CPU a hundred cycles each.
  double deviation(int input) const {
    for (const Statement& statement : of_.program.statements) {
      const auto* product = std::get_if<Contraction>(&statement.op);
      if (!product || kept_factor(of_.program, *product) != input) continue;
      double summed = static_cast<double>(product->literal_contracted);
      for (const std::string& dim : product->contracted) summed *= static_cast<double>(of_.dims.at(dim));
      return 1 / std::sqrt(summed);
    }
    return 1;
  }

  // A stack's file holds its parts contiguously.
  Status read_parts(const Stack& whole, const std::string& path) const {
    std::vector<std::int64_t> all_extents = extents_of(whole.parts.front());
    all_extents.front() = 0;
    std::int64_t elements = 0;
    for (const int part : whole.parts) {
      all_extents.front() += extents_of(part).front();
      elements += array(part).elements;
    }
    const auto all = ArrayStorage::make(whole.dtype, elements);
    if (!all) return input_error(fmt::format("not enough memory to read '{}'", whole.name));
    if (const Status read = read_npy(path, all->array(), all_extents); !read) return read;
    const std::byte* from = all->array().data;
    for (const int part : whole.parts) {
      const std::int64_t bytes = stored_bytes(whole.dtype, array(part).elements);
      std::copy_n(from, bytes, array(part).data);
      from += bytes;
    }
    return Done{};
  }

  const FillRequest& of_;
};

bool is_stack(const Program& program, const std::string& name) {
  return std::any_of(program.stacks.begin(), program.stacks.end(), [&](const Stack& s) { return s.name == name; });
}

Error unknown(const Program& program, const std::string& name, std::string_view option, bool inputs) {
  std::vector<std::string> candidates;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if ((program.tensors[i].role == Role::input) != inputs) continue;
    const Stack* const whole = stack_of(program, static_cast<int>(i));
    if (!whole || whole->parts.front() == static_cast<int>(i))
      candidates.push_back(whole ? whole->name : program.tensors[i].name);
  }
  const std::string near = nearest(name, candidates);
  return input_error(fmt::format("unknown tensor '{}' in {}; expected {} {}, one of {}", name, option,
                                 inputs ? "an" : "a", inputs ? "input" : "result", fmt::join(candidates, ", ")),
                     near.empty() ? "" : fmt::format("did you mean {}?", near));
}

}  // namespace

std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> out;
  for (const SizedAxis& axis : shape) out.push_back(axis.extent);
  return out;
}

Status check_indices(const Program& program, const Bindings& dims, int input, const Array& array) {
  const std::optional<Pointed> pointed = pointed_along(program, dims, input);
  if (!pointed) return Done{};
  for (std::int64_t i = 0; i < array.elements; ++i) {
    const double index = read(array, i);
    if (index >= 0 && index < static_cast<double>(pointed->size)) continue;
    return input_error(fmt::format("index {} of '{}' is {}; expected 0 to {}, because it indexes {}", i,
                                   program.tensors[static_cast<std::size_t>(input)].name, index, pointed->size - 1,
                                   pointed->axis.named() ? pointed->axis.dim : std::to_string(pointed->axis.literal)),
                       "correct the file, or change the dimension's size with -d");
  }
  return Done{};
}

Status fill_inputs(const FillRequest& request) { return Filler(request).fill(); }

Status fill_input(const FillRequest& request, int tensor) { return Filler(request).fill_input(tensor); }

std::optional<int> tensor_named(const Program& program, const std::string& name) {
  for (std::size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].name == name) return static_cast<int>(i);
  return std::nullopt;
}

Status check_files(const Program& program, const Files& in, const Files& out) {
  const auto role = [&](int t) { return program.tensors[static_cast<std::size_t>(t)].role; };
  for (const auto& [name, path] : in) {
    if (is_stack(program, name)) continue;
    const auto found = tensor_named(program, name);
    if (const Stack* const whole = found ? stack_of(program, *found) : nullptr)
      return input_error(fmt::format("'{}' in --in is a part of '{}'", name, whole->name),
                         fmt::format("pass the whole tensor: --in {}=FILE.npy", whole->name));
    if (!found || role(*found) != Role::input) return unknown(program, name, "--in", true);
  }
  for (const auto& [name, path] : out) {
    const auto found = tensor_named(program, name);
    if (!found || role(*found) == Role::input) return unknown(program, name, "--out", false);
  }
  return Done{};
}

}  // namespace ridge
