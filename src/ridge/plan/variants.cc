#include "ridge/plan/advise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "ridge/base/contains.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/next_steps.h"

namespace ridge {
namespace {

using SourceLines = std::vector<std::string>;

SourceLines print_lines(const Program& program) {
  std::istringstream text(print_program(program));
  SourceLines out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

std::optional<Program> parse_lines(const SourceLines& lines) {
  auto program = parse(fmt::format("{}\n", fmt::join(lines, "\n")));
  return program ? std::optional(*std::move(program)) : std::nullopt;
}

// Returns the length of a word such as "param " at the beginning of a line, or 0.
std::size_t input_use_length(const std::string& line) {
  for (const InputUse use : {InputUse::activation, InputUse::parameter, InputUse::cache, InputUse::state}) {
    const std::string word = std::string(input_use_word(use)) + " ";
    if (line.starts_with(word)) return word.size();
  }
  return 0;
}

// Returns the index of the line that declares or computes a tensor, or the number of lines.
std::size_t find_line(const SourceLines& lines, const std::string& tensor) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view name = std::string_view(lines[i]).substr(input_use_length(lines[i]));
    if (name.starts_with(tensor + "[") || name.starts_with(tensor + ":")) return i;
  }
  return lines.size();
}

std::string format_axes(const std::vector<Axis>& axes) {
  std::vector<std::string> out;
  for (const Axis& axis : axes) out.push_back(axis.is_named() ? axis.dim : std::to_string(axis.literal));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

struct VariantBuilder {
  const Program& program;
  const Bindings& dims;
  const std::string& machine;
  std::vector<ProgramVariant>& out;

  const Tensor& tensor_at(int i) const { return program.tensors[i]; }
  void add_variant(const char* kind, std::string what, const SourceLines& lines) const {
    if (auto other = parse_lines(lines)) out.push_back({kind, std::move(what), *std::move(other), dims});
  }
};

const Contraction* plain_contraction(const Statement& statement) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  return product && !product->grouped && product->partial.empty() ? product : nullptr;
}

int count_readers(const Program& program, int tensor) {
  int count = 0;
  for (const Statement& statement : program.statements)
    for (const int read : statement_operands(statement)) count += read == tensor;
  return count;
}

// Adds y = kept * (moved * c) for y = (kept * moved) * c.
void add_reordered_product(const VariantBuilder& builder, const Contraction& inner, const Contraction& outer, int kept,
                           int moved) {
  const int c = outer.left == inner.result ? outer.right : outer.left;
  const Tensor &a = builder.tensor_at(kept), &b = builder.tensor_at(moved), &last = builder.tensor_at(c),
               &y = builder.tensor_at(outer.result), &intermediate = builder.tensor_at(inner.result);
  std::vector<Axis> axes;
  for (const auto* from : {&b.axes, &last.axes})
    for (const Axis& axis : *from)
      if ((contains(a.axes, axis) || contains(y.axes, axis)) && !contains(axes, axis)) axes.push_back(axis);
  if (axes.empty() || kept == c || moved == c || kept == moved) return;
  // Without a common dimension, moved * c would be an outer product.
  if (std::none_of(b.axes.begin(), b.axes.end(), [&](const Axis& axis) { return contains(last.axes, axis); })) return;
  SourceLines lines = print_lines(builder.program);
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(find_line(lines, intermediate.name)));
  const std::size_t at = find_line(lines, y.name);
  if (at >= lines.size()) return;
  const std::string left = lines[at].substr(0, lines[at].find(" = "));
  const std::string dtype = intermediate.declared ? fmt::format(": {}", dtype_name(intermediate.dtype)) : "";
  lines[at] = fmt::format("{} = {} * {}", left, a.name, intermediate.name);
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
               fmt::format("{}{}{} = {} * {}", intermediate.name, dtype, format_axes(axes), b.name, last.name));
  builder.add_variant("order", fmt::format("multiply {} * {} first, then {}", b.name, last.name, a.name), lines);
}

void add_reordered_products(const VariantBuilder& builder) {
  for (const Statement& first : builder.program.statements)
    for (const Statement& second : builder.program.statements) {
      const Contraction *const inner = plain_contraction(first), *const outer = plain_contraction(second);
      if (inner == nullptr || outer == nullptr || builder.tensor_at(inner->result).role != TensorRole::intermediate ||
          count_readers(builder.program, inner->result) != 1)
        continue;
      if (outer->left != inner->result && outer->right != inner->result) continue;
      add_reordered_product(builder, *inner, *outer, inner->left, inner->right);
      add_reordered_product(builder, *inner, *outer, inner->right, inner->left);
    }
}

// Adds the transposed layout of each two-axis input that a kernel copies first ("w[F, D] to [D, F]").
void add_transposed_inputs(const VariantBuilder& builder, const PlannedProgram& planned) {
  for (const GroupPrediction& kernel : planned.kernels)
    for (const std::string& copy : kernel.copies)
      for (const Tensor& tensor : builder.program.tensors) {
        if (tensor.role != TensorRole::input || tensor.axes.size() != 2 || !copy.starts_with(tensor.name + "["))
          continue;
        SourceLines lines = print_lines(builder.program);
        const std::size_t at = find_line(lines, tensor.name);
        std::vector<Axis> transposed = tensor.axes;
        std::swap(transposed[0], transposed[1]);
        lines[at] = fmt::format("{}{}: {}{}", lines[at].substr(0, input_use_length(lines[at])), tensor.name,
                                dtype_name(tensor.dtype), format_axes(transposed));
        builder.add_variant("layout", fmt::format("store {} as {}", tensor.name, format_axes(transposed)), lines);
      }
}

// True if the program reduces on a CPU, where the conversion from bf16 to f32 would limit the speed.
bool reduces_on_cpu(const VariantBuilder& builder) {
  if (builder.machine != "cpu") return false;
  for (const Statement& statement : builder.program.statements)
    if (const auto* expression = std::get_if<Expression>(&statement.op))
      for (const Node& node : expression->nodes)
        if (node.kind == Node::Kind::along_dims && is_reducing_function(node.function)) return true;
  return false;
}

void add_narrower_dtypes(const VariantBuilder& builder) {
  SourceLines lines = print_lines(builder.program);
  bool wide = false;
  for (const Tensor& tensor : builder.program.tensors) {
    const std::size_t at = find_line(lines, tensor.name);
    const std::string head = tensor.name + ": f32[";
    if (at >= lines.size()) continue;
    const std::size_t begin = input_use_length(lines[at]);
    if (lines[at].compare(begin, head.size(), head) != 0) continue;
    lines[at].replace(begin, head.size(), tensor.name + ": bf16[");
    wide = true;
  }
  if (wide && !reduces_on_cpu(builder)) builder.add_variant("dtype", "store all f32 tensors in bf16", lines);
  const std::vector<int> kept = find_weights(builder.program);
  if (std::none_of(kept.begin(), kept.end(),
                   [&](int i) { return dtype_bits(builder.tensor_at(i).dtype) > dtype_bits(DType::int8); }))
    return;
  if (auto other = with_weight_dtype(builder.program, DType::int8))
    builder.out.push_back({"weights", "store the weights in int8", *std::move(other), builder.dims});
}

// Adds sizes that are padded to multiples of 64.
void add_padded_sizes(const VariantBuilder& builder) {
  constexpr std::int64_t multiple = 64;
  for (const Dimension& dim : builder.program.dims) {
    const auto size = builder.dims.find(dim.name);
    if (size == builder.dims.end() || size->second < multiple || size->second % multiple == 0 || !dim.lengths.empty())
      continue;
    Bindings padded = builder.dims;
    padded[dim.name] = (size->second + multiple - 1) / multiple * multiple;
    builder.out.push_back({"padding", fmt::format("pad {} from {} to {}", dim.name, size->second, padded[dim.name]),
                           builder.program, padded});
  }
}

// Adds a larger batch: more rows along a dimension that no weight has and that is not summed.
void add_larger_batches(const VariantBuilder& builder) {
  constexpr std::int64_t times = 16, max_size = 1024;
  const std::vector<int> kept = find_weights(builder.program);
  if (kept.empty()) return;
  for (const Dimension& dim : builder.program.dims) {
    const Axis axis{.dim = dim.name};
    const auto size = builder.dims.find(dim.name);
    const bool in_weights =
        std::any_of(kept.begin(), kept.end(), [&](int i) { return contains(builder.tensor_at(i).axes, axis); });
    const bool everywhere = std::all_of(
        builder.program.tensors.begin(), builder.program.tensors.end(),
        [&](const Tensor& tensor) { return tensor.role != TensorRole::output || contains(tensor.axes, axis); });
    if (size == builder.dims.end() || in_weights || !everywhere || size->second * times > max_size ||
        !dim.lengths.empty())
      continue;
    Bindings larger = builder.dims;
    larger[dim.name] = size->second * times;
    builder.out.push_back({"batch", fmt::format("{} = {} instead of {}", dim.name, larger[dim.name], size->second),
                           builder.program, larger, static_cast<double>(times)});
  }
}

// Adds one chip's shard of a split without communication, which a single device can time.
void add_single_chip_shard(const VariantBuilder& builder, const Machine& machine) {
  if (machine.links.empty() || !builder.program.mesh.empty()) return;
  std::optional<double> min_time_s;
  std::string shared;
  for (const Dimension& dim : builder.program.dims) {
    const auto size = builder.dims.find(dim.name);
    if (size == builder.dims.end() || size->second % suggested_split_chips != 0 || !dim.lengths.empty()) continue;
    const auto part = explain(builder.program, machine, builder.dims, DimensionSplit{dim.name, suggested_split_chips},
                              Thresholds::skipped);
    if (!part || !part->total.time_lower_s || part->total.time_network_s.value_or(0) > 0) continue;
    if (min_time_s && *part->total.time_lower_s >= *min_time_s) continue;
    min_time_s = part->total.time_lower_s;
    shared = dim.name;
  }
  if (!min_time_s) return;
  Bindings part = builder.dims;
  part[shared] /= suggested_split_chips;
  builder.out.push_back(
      {"chips", fmt::format("{} chips, {} split", suggested_split_chips, shared), builder.program, std::move(part)});
}

}  // namespace

Program with_sizes(Program program, const Bindings& dims) {
  for (Dimension& dim : program.dims)
    if (const auto size = dims.find(dim.name); size != dims.end() && dim.lengths.empty())
      dim.value = Polynomial(size->second);
  return program;
}

std::vector<ProgramVariant> make_variants(const Program& program, const Explanation& explanation,
                                          const PlannedProgram* planned) {
  Bindings dims;
  for (const std::string& dim : program.dim_names())
    if (const auto size = explanation.dims.find(dim); size != explanation.dims.end()) dims.insert(*size);
  std::vector<ProgramVariant> out;
  const VariantBuilder builder{program, dims, explanation.machine.name, out};
  add_reordered_products(builder);
  if (planned != nullptr) add_transposed_inputs(builder, *planned);
  add_narrower_dtypes(builder);
  add_padded_sizes(builder);
  add_larger_batches(builder);
  add_single_chip_shard(builder, explanation.machine);
  return out;
}

}  // namespace ridge
