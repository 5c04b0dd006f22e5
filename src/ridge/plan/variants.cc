#include "ridge/plan/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "ridge/program/weights.h"
#include "ridge/roofline/next.h"

namespace ridge {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const Program& program) {
  std::istringstream text(print(program));
  Lines out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

std::optional<Program> parsed(const Lines& lines) {
  auto program = parse(fmt::format("{}\n", fmt::join(lines, "\n")));
  return program ? std::optional(*std::move(program)) : std::nullopt;
}

// Returns the index of the line that declares or computes a tensor, or the number of lines.
std::size_t line_of(const Lines& lines, const std::string& tensor) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with(tensor + "[") || lines[i].starts_with(tensor + ":")) return i;
  return lines.size();
}

std::string axes_text(const std::vector<Axis>& axes) {
  std::vector<std::string> out;
  for (const Axis& axis : axes) out.push_back(axis.named() ? axis.dim : std::to_string(axis.literal));
  return fmt::format("[{}]", fmt::join(out, ", "));
}

bool has(const std::vector<Axis>& axes, const Axis& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

struct Asked {
  const Program& program;
  const Bindings& dims;
  const std::string& machine;
  std::vector<Variant>& out;

  const Tensor& tensor(int i) const { return program.tensors[static_cast<std::size_t>(i)]; }
  void add(const char* kind, std::string what, const Lines& lines) const {
    if (auto other = parsed(lines)) out.push_back({kind, std::move(what), *std::move(other), dims});
  }
};

const Contraction* product_of(const Statement& statement) {
  const auto* product = std::get_if<Contraction>(&statement.op);
  return product && !product->grouped && product->partial.empty() ? product : nullptr;
}

int readers(const Program& program, int tensor) {
  int count = 0;
  for (const Statement& statement : program.statements)
    for (const int read : operands(statement)) count += read == tensor;
  return count;
}

// Adds y = kept * (moved * c) for y = (kept * moved) * c.
void add_order(const Asked& asked, const Contraction& inner, const Contraction& outer, int kept, int moved) {
  const int c = outer.left == inner.result ? outer.right : outer.left;
  const Tensor &a = asked.tensor(kept), &b = asked.tensor(moved), &last = asked.tensor(c),
               &y = asked.tensor(outer.result), &made = asked.tensor(inner.result);
  std::vector<Axis> axes;
  for (const auto* from : {&b.axes, &last.axes})
    for (const Axis& axis : *from)
      if ((has(a.axes, axis) || has(y.axes, axis)) && !has(axes, axis)) axes.push_back(axis);
  if (axes.empty() || kept == c || moved == c || kept == moved) return;
  // Without a common dimension, moved * c would be an outer product.
  if (std::none_of(b.axes.begin(), b.axes.end(), [&](const Axis& axis) { return has(last.axes, axis); })) return;
  Lines lines = lines_of(asked.program);
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(line_of(lines, made.name)));
  const std::size_t at = line_of(lines, y.name);
  if (at >= lines.size()) return;
  const std::string left = lines[at].substr(0, lines[at].find(" = "));
  const std::string dtype = made.declared ? fmt::format(": {}", name(made.dtype)) : "";
  lines[at] = fmt::format("{} = {} * {}", left, a.name, made.name);
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
               fmt::format("{}{}{} = {} * {}", made.name, dtype, axes_text(axes), b.name, last.name));
  asked.add("order", fmt::format("multiply {} * {} first, then {}", b.name, last.name, a.name), lines);
}

void add_orders(const Asked& asked) {
  for (const Statement& first : asked.program.statements)
    for (const Statement& second : asked.program.statements) {
      const Contraction *const inner = product_of(first), *const outer = product_of(second);
      if (inner == nullptr || outer == nullptr || asked.tensor(inner->result).role != Role::intermediate ||
          readers(asked.program, inner->result) != 1)
        continue;
      if (outer->left != inner->result && outer->right != inner->result) continue;
      add_order(asked, *inner, *outer, inner->left, inner->right);
      add_order(asked, *inner, *outer, inner->right, inner->left);
    }
}

// Adds the transposed layout of each two-axis input that a kernel copies first ("w[F, D] to [D, F]").
void add_layouts(const Asked& asked, const PlannedProgram& planned) {
  for (const OpPlan& kernel : planned.kernels)
    for (const std::string& copy : kernel.copies)
      for (const Tensor& tensor : asked.program.tensors) {
        if (tensor.role != Role::input || tensor.axes.size() != 2 || !copy.starts_with(tensor.name + "[")) continue;
        Lines lines = lines_of(asked.program);
        const std::size_t at = line_of(lines, tensor.name);
        std::vector<Axis> turned = tensor.axes;
        std::swap(turned[0], turned[1]);
        lines[at] = fmt::format("{}: {}{}", tensor.name, name(tensor.dtype), axes_text(turned));
        asked.add("layout", fmt::format("store {} as {}", tensor.name, axes_text(turned)), lines);
      }
}

// True if the program reduces on a CPU, where the conversion from bf16 to f32 would limit the speed.
bool reduces_on_cpu(const Asked& asked) {
  if (asked.machine != "cpu") return false;
  for (const Statement& statement : asked.program.statements)
    if (const auto* expression = std::get_if<Expression>(&statement.op))
      for (const Node& node : expression->nodes)
        if (node.kind == Node::Kind::along && reduces(node.function)) return true;
  return false;
}

void add_dtypes(const Asked& asked) {
  Lines lines = lines_of(asked.program);
  bool wide = false;
  for (const Tensor& tensor : asked.program.tensors) {
    const std::size_t at = line_of(lines, tensor.name);
    const std::string head = tensor.name + ": f32[";
    if (at >= lines.size() || !lines[at].starts_with(head)) continue;
    lines[at] = tensor.name + ": bf16[" + lines[at].substr(head.size());
    wide = true;
  }
  if (wide && !reduces_on_cpu(asked)) asked.add("dtype", "store all f32 tensors in bf16", lines);
  const std::vector<int> kept = weights(asked.program);
  if (std::none_of(kept.begin(), kept.end(), [&](int i) { return bits(asked.tensor(i).dtype) > bits(DType::int8); }))
    return;
  if (auto other = with_weights(asked.program, DType::int8))
    asked.out.push_back({"weights", "store the weights in int8", *std::move(other), asked.dims});
}

// Adds sizes that are padded to multiples of 64.
void add_padding(const Asked& asked) {
  constexpr std::int64_t whole = 64;
  for (const Dimension& dim : asked.program.dims) {
    const auto size = asked.dims.find(dim.name);
    if (size == asked.dims.end() || size->second < whole || size->second % whole == 0 || !dim.lengths.empty()) continue;
    Bindings padded = asked.dims;
    padded[dim.name] = (size->second + whole - 1) / whole * whole;
    asked.out.push_back({"padding", fmt::format("pad {} from {} to {}", dim.name, size->second, padded[dim.name]),
                         asked.program, padded});
  }
}

// Adds a larger batch: more rows along a dimension that no weight has and that is not summed.
void add_batches(const Asked& asked) {
  constexpr std::int64_t times = 16, most = 1024;
  const std::vector<int> kept = weights(asked.program);
  if (kept.empty()) return;
  for (const Dimension& dim : asked.program.dims) {
    const Axis axis{.dim = dim.name};
    const auto size = asked.dims.find(dim.name);
    const bool in_weights =
        std::any_of(kept.begin(), kept.end(), [&](int i) { return has(asked.tensor(i).axes, axis); });
    const bool everywhere =
        std::all_of(asked.program.tensors.begin(), asked.program.tensors.end(),
                    [&](const Tensor& tensor) { return tensor.role != Role::output || has(tensor.axes, axis); });
    if (size == asked.dims.end() || in_weights || !everywhere || size->second * times > most || !dim.lengths.empty())
      continue;
    Bindings larger = asked.dims;
    larger[dim.name] = size->second * times;
    asked.out.push_back({"batch",
                         fmt::format("{} = {} instead of {}", dim.name, larger[dim.name], size->second),
                         asked.program, larger, static_cast<double>(times)});
  }
}

// Adds one chip's shard of a split without communication, which a single device can time.
void add_chips(const Asked& asked, const Machine& machine) {
  if (machine.links.empty() || !asked.program.mesh.empty()) return;
  std::optional<double> least;
  std::string shared;
  for (const Dimension& dim : asked.program.dims) {
    const auto size = asked.dims.find(dim.name);
    if (size == asked.dims.end() || size->second % chips_asked != 0 || !dim.lengths.empty()) continue;
    const auto part = explain(asked.program, machine, asked.dims, Split{dim.name, chips_asked}, Thresholds::left_out);
    if (!part || !part->total.time_lower_s || part->total.time_network_s.value_or(0) > 0) continue;
    if (least && *part->total.time_lower_s >= *least) continue;
    least = part->total.time_lower_s;
    shared = dim.name;
  }
  if (!least) return;
  Bindings part = asked.dims;
  part[shared] /= chips_asked;
  asked.out.push_back(
      {"chips", fmt::format("{} chips, {} split", chips_asked, shared), asked.program, std::move(part)});
}

}  // namespace

Program with_sizes(Program program, const Bindings& dims) {
  for (Dimension& dim : program.dims)
    if (const auto size = dims.find(dim.name); size != dims.end() && dim.lengths.empty())
      dim.value = Polynomial(size->second);
  return program;
}

std::vector<Variant> variants(const Program& program, const Explanation& explanation, const PlannedProgram* planned) {
  Bindings dims;
  for (const std::string& dim : program.dim_names())
    if (const auto size = explanation.dims.find(dim); size != explanation.dims.end()) dims.insert(*size);
  std::vector<Variant> out;
  const Asked asked{program, dims, explanation.machine.name, out};
  add_orders(asked);
  if (planned != nullptr) add_layouts(asked, *planned);
  add_dtypes(asked);
  add_padding(asked);
  add_batches(asked);
  add_chips(asked, explanation.machine);
  return out;
}

}  // namespace ridge
