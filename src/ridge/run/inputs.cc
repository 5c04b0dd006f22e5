#include "ridge/run/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/plan/shape.h"
#include "ridge/program/routine.h"
#include "ridge/program/weights.h"
#include "ridge/run/memory.h"
#include "ridge/run/npy.h"

namespace ridge {
namespace {

void write_index_buffer(const PlanBuffer& buffer, const Array& array) {
  const std::vector<float> indices = index_values(buffer);
  std::copy(indices.begin(), indices.end(), reinterpret_cast<float*>(array.data));
}

// The shortest dimension that an input's values index, and its size.
struct IndexedDimension {
  Axis axis;
  std::int64_t size = 0;
};
std::optional<IndexedDimension> find_indexed_dimension(const Program& program, const Bindings& dims, int input) {
  std::optional<IndexedDimension> out;
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!routine) continue;
    const RoutineKind word = routine->kind;
    if (word != RoutineKind::gather && word != RoutineKind::scatter && word != RoutineKind::routed) continue;
    if (statement_operands(statement).back() != input) continue;
    const Axis& over = routine->over.front();
    const std::int64_t size = over.is_named() ? dims.at(over.dim) : over.literal;
    if (!out || size < out->size) out = {over, size};
  }
  return out;
}

class InputFiller {
 public:
  explicit InputFiller(const FillRequest& request) : request_(request) {}

  Status fill_all() const {
    for (const StackedInput& stack : request_.program.stacks)
      if (const auto file = request_.in.find(stack.name); file != request_.in.end())
        RIDGE_TRY_STATUS(read_stack_parts(stack, file->second));
    for (std::size_t i = 0; i < request_.arrays.size(); ++i) {
      const bool is_input =
          i < request_.program.tensors.size() && request_.program.tensors[i].role == TensorRole::input;
      if (!is_input) {
        poison_array(request_.arrays[i], request_.threads);
        if (request_.buffers[i].holds_indices) write_index_buffer(request_.buffers[i], request_.arrays[i]);
      } else if (const Status filled = fill_one_input(static_cast<int>(i)); !filled) {
        return filled;
      }
    }
    return Done{};
  }

  Status fill_one_input(int i) const {
    const Tensor& input = request_.program.tensors[i];
    const StackedInput* const stack = stack_of(request_.program, i);
    if (stack && request_.in.contains(stack->name))
      return check_indices(request_.program, request_.dims, i, array_at(i));
    const std::optional<IndexedDimension> indexed = find_indexed_dimension(request_.program, request_.dims, i);
    if (request_.progress)
      request_.progress(static_cast<double>(i) / static_cast<double>(request_.arrays.size()), input.name);
    const auto file = request_.in.find(input.name);
    if (file != request_.in.end()) {
      const Status read = read_npy(file->second, array_at(i), tensor_extents(i));
      return read ? check_indices(request_.program, request_.dims, i, array_at(i)) : read;
    }
    if (indexed) {
      fill_indices(array_at(i), request_.seed, i, indexed->size);
      return Done{};
    }
    const DType dtype = array_at(i).dtype;
    if (dtype == DType::int32 && holds_positions(i)) {
      constexpr std::int64_t max_position = 1 << 17;
      fill_indices(array_at(i), request_.seed, i, max_position);
      return Done{};
    }
    if (const std::int64_t max_length = max_length_for(i); dtype == DType::int32 && max_length > 0) {
      fill_indices(array_at(i), request_.seed, i, max_length);
      for (std::int64_t at = 0; at < array_at(i).elements; ++at)
        ++reinterpret_cast<std::int32_t*>(array_at(i).data)[at];
      return Done{};
    }
    if (!can_fill_normal(dtype)) {  // no kernel reads an input of this dtype
      poison_array(array_at(i), request_.threads);
      return Done{};
    }
    fill_normal(array_at(i), request_.seed, i, request_.threads, input_deviation(i));
    return Done{};
  }

 private:
  bool holds_positions(int input) const {
    const auto& statements = request_.program.statements;
    return std::any_of(statements.begin(), statements.end(), [&](const Statement& statement) {
      const Routine* const routine = routine_of(statement);
      return routine != nullptr && routine->kind == RoutineKind::rotary && statement_operands(statement)[1] == input;
    });
  }

  // Returns the longest dimension with an index in an expression that reads the input: integers there are lengths from
  // 1 to its size. Returns 0 if no expression reads the input.
  std::int64_t max_length_for(int input) const {
    std::int64_t out = 0;
    for (const Statement& statement : request_.program.statements) {
      const auto* const e = std::get_if<Expression>(&statement.op);
      const std::vector<int> in = statement_operands(statement);
      if (e == nullptr || !contains(in, input)) continue;
      out = std::max<std::int64_t>(out, 1);
      for (const Node& node : e->nodes)
        if (node.kind == Node::Kind::index && node.over[0].is_named())
          out = std::max(out, request_.dims.at(node.over[0].dim));
    }
    return out;
  }
  const Array& array_at(int i) const { return request_.arrays[i]; }
  std::vector<std::int64_t> tensor_extents(int tensor) const {
    return shape_extents(make_shape(request_.program.tensors[tensor], request_.dims).value());
  }

  // Returns the standard deviation of an input's random numbers: 1, but 1 / sqrt(K) for constant weights, as models are
  // initialised, so that a layer's results have the size of its inputs. With 1, results grow by sqrt(K) per layer, and
  // activations then produce subnormal numbers, which cost the CPU a hundred cycles each.
  double input_deviation(int input) const {
    for (const Statement& statement : request_.program.statements) {
      const auto* product = std::get_if<Contraction>(&statement.op);
      if (!product || find_input_factor(request_.program, *product) != input) continue;
      double summed = static_cast<double>(product->literal_contracted);
      for (const std::string& dim : product->contracted) summed *= static_cast<double>(request_.dims.at(dim));
      return 1 / std::sqrt(summed);
    }
    return 1;
  }

  // A stack's file holds its parts contiguously.
  Status read_stack_parts(const StackedInput& stack, const std::string& path) const {
    std::vector<std::int64_t> all_extents = tensor_extents(stack.parts.front());
    all_extents.front() = 0;
    std::int64_t elements = 0;
    for (const int part : stack.parts) {
      all_extents.front() += tensor_extents(part).front();
      elements += array_at(part).elements;
    }
    const auto all = ArrayStorage::make(stack.dtype, elements);
    if (!all) return input_error(fmt::format("not enough memory to read '{}'", stack.name));
    RIDGE_TRY_STATUS(read_npy(path, all->array(), all_extents));
    const std::byte* from = all->array().data;
    for (const int part : stack.parts) {
      const std::int64_t bytes = stored_bytes(stack.dtype, array_at(part).elements);
      std::copy_n(from, bytes, array_at(part).data);
      from += bytes;
    }
    return Done{};
  }

  const FillRequest& request_;
};

bool is_stack(const Program& program, const std::string& name) {
  return std::any_of(program.stacks.begin(), program.stacks.end(),
                     [&](const StackedInput& s) { return s.name == name; });
}

Error unknown_tensor_error(const Program& program, const std::string& name, std::string_view option, bool inputs) {
  std::vector<std::string> candidates;
  for (std::size_t i = 0; i < program.tensors.size(); ++i) {
    if ((program.tensors[i].role == TensorRole::input) != inputs) continue;
    const StackedInput* const stack = stack_of(program, static_cast<int>(i));
    if (!stack || stack->parts.front() == static_cast<int>(i))
      candidates.push_back(stack ? stack->name : program.tensors[i].name);
  }
  const std::string suggestion = find_nearest(name, candidates);
  return input_error(fmt::format("unknown tensor '{}' in {}; expected {} {}, one of {}", name, option,
                                 inputs ? "an" : "a", inputs ? "input" : "result", fmt::join(candidates, ", ")),
                     suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion));
}

}  // namespace

std::vector<std::int64_t> shape_extents(const Shape& shape) {
  std::vector<std::int64_t> out;
  for (const SizedAxis& axis : shape) out.push_back(axis.extent);
  return out;
}

Status check_indices(const Program& program, const Bindings& dims, int input, const Array& array) {
  const std::optional<IndexedDimension> indexed = find_indexed_dimension(program, dims, input);
  if (!indexed) return Done{};
  for (std::int64_t i = 0; i < array.elements; ++i) {
    const double index = read_element(array, i);
    if (index >= 0 && index < static_cast<double>(indexed->size)) continue;
    return input_error(
        fmt::format("index {} of '{}' is {}; expected 0 to {}, because it indexes {}", i, program.tensors[input].name,
                    index, indexed->size - 1,
                    indexed->axis.is_named() ? indexed->axis.dim : std::to_string(indexed->axis.literal)),
        "correct the file, or change the dimension's size with -d");
  }
  return Done{};
}

Status fill_inputs(const FillRequest& request) { return InputFiller(request).fill_all(); }

Status fill_one_input(const FillRequest& request, int tensor) { return InputFiller(request).fill_one_input(tensor); }

std::optional<int> find_tensor(const Program& program, const std::string& name) {
  for (std::size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].name == name) return static_cast<int>(i);
  return std::nullopt;
}

Status check_file_names(const Program& program, const FilePaths& in, const FilePaths& out) {
  const auto role = [&](int t) { return program.tensors[t].role; };
  for (const auto& [name, path] : in) {
    if (is_stack(program, name)) continue;
    const auto found = find_tensor(program, name);
    if (const StackedInput* const stack = found ? stack_of(program, *found) : nullptr)
      return input_error(fmt::format("'{}' in --in is a part of '{}'", name, stack->name),
                         fmt::format("pass the whole tensor: --in {}=FILE.npy", stack->name));
    if (!found || role(*found) != TensorRole::input) return unknown_tensor_error(program, name, "--in", true);
  }
  for (const auto& [name, path] : out) {
    const auto found = find_tensor(program, name);
    if (!found || role(*found) == TensorRole::input) return unknown_tensor_error(program, name, "--out", false);
  }
  return Done{};
}

}  // namespace ridge
