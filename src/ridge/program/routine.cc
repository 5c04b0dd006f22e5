// Semantics of routines: window positions of convolutions, checks of sizes, and the dimensions along which routines can
// be split.
#include "ridge/program/routine.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge {
namespace {

constexpr std::int64_t max_size = std::int64_t{1} << 62;

const Tensor& tensor_at(const Program& program, int i) { return program.tensors[i]; }

std::string format_window_formula(const WindowDimension& w, std::int64_t in, std::int64_t kernel) {
  return fmt::format("({} + 2*{} - {}*({} - 1) - 1)/{} + 1", in, w.padding, w.dilation, kernel, w.stride);
}

std::string size_hint(const Axis& axis, std::int64_t size) {
  return axis.is_named() ? fmt::format("dims {} = {}, or another stride or padding", axis.dim, size)
                         : fmt::format("write {} there, or another stride or padding", size);
}

Error transposed_size_error(const program::SourceText& source, const WindowDimension& w, std::int64_t size,
                            std::int64_t windows, std::int64_t kernel) {
  const auto smallest = min_transposed_size(w, windows, kernel);
  if (!smallest)
    return source.error_at(w.in.span, fmt::format("{} windows with stride {} are too many", windows, w.stride),
                           "use smaller sizes");
  const std::int64_t largest = *smallest + std::max(w.stride, w.dilation) - 1;
  const std::string formula = fmt::format("({} - 1)*{} - 2*{} + {}*({} - 1) + 1 = {}", windows, w.stride, w.padding,
                                          w.dilation, kernel, *smallest),
                    range = largest > *smallest ? fmt::format("{} to {}", formula, largest) : formula;
  if (largest < 1)
    return source.error_at(w.in.span, fmt::format("the padding leaves no element of the result: {}", range),
                           "use a smaller padding or a larger window");
  return source.error_at(
      w.in.span,
      fmt::format("the result has {} elements, the window makes {}",
                  w.in.is_named() ? fmt::format("{} = {}", w.in.dim, size) : std::to_string(size), range),
      size_hint(w.in, std::max<std::int64_t>(*smallest, 1)));
}

Status check_window(const program::SourceText& source, const WindowDimension& w, const Bindings& sizes) {
  const auto in = w.in.size(sizes), out = w.out.size(sizes), kernel = w.kernel.size(sizes);
  if (!in || !out || !kernel) return Done{};
  if (*kernel > max_window)
    return source.error_at(w.result().span,
                           fmt::format("expected a window of at most {}, found {}", max_window, *kernel),
                           "use a smaller one");
  if (has_matching_sizes(w, *in, *out, *kernel)) return Done{};
  if (w.is_transposed) return transposed_size_error(source, w, *in, *out, *kernel);
  const auto fits = count_window_positions(w, *in, *kernel);
  if (!fits)
    return source.error_at(w.out.span,
                           fmt::format("a window of {} with dilation {} does not fit into {} with padding {}", *kernel,
                                       w.dilation, *in, w.padding),
                           "use a larger padding or a smaller window");
  return source.error_at(w.out.span,
                         fmt::format("the result has {} = {} positions, the window takes {} = {}",
                                     program::format_axis(w.out), *out, format_window_formula(w, *in, *kernel), *fits),
                         size_hint(w.out, *fits));
}

Status check_groups(const program::SourceText& source, const Program& program, const Expression& conv,
                    const Bindings& sizes) {
  const std::vector<int> in = expression_operands(conv);
  const auto [leading, grouped, leading_role, grouped_role] = conv_channels(*conv.routine, in[0], conv.result);
  const std::vector<Axis>& w = tensor_at(program, in[1]).axes;
  const std::size_t at = conv_axes(*conv.routine, w.size()).channels;
  if (!conv.routine->groups.has_all_values(sizes)) return Done{};
  const auto groups = conv.routine->groups.evaluate(sizes);
  const auto channels = tensor_at(program, grouped).axes[at].size(sizes), each = w[at].size(sizes),
             leading_channels = w[0].size(sizes);
  const TextSpan span = tensor_at(program, conv.result).span;
  if (!groups || *groups < 1)
    return source.error_at(span, "expected at least 1 group of channels, found fewer", "groups = 1");
  std::int64_t together = 0;
  if (channels && each && (__builtin_mul_overflow(*groups, *each, &together) || together != *channels))
    return source.error_at(
        span,
        fmt::format("{} groups of {} channels are not the {} that '{}' has", *groups, *each, *channels,
                    tensor_at(program, grouped).name),
        fmt::format("groups times the channels of the weights are the channels of the {}", grouped_role));
  if (leading_channels && *leading_channels % *groups != 0)
    return source.error_at(
        span,
        fmt::format("{} channels of the {} cannot be divided into {} groups", *leading_channels, leading_role, *groups),
        "every group has the same number of channels");
  return Done{};
}

// A convolution can be split along the batch, and along channels unless this splits a group; a pool along all
// dimensions without a window.
Reason conv_split_unsupported_reason(const Program& program, const Expression& conv, const std::string& dim) {
  for (const WindowDimension& w : windows_of(program, conv))
    if (w.in.dim == dim || w.out.dim == dim || w.kernel.dim == dim)
      return "windows cross the boundary of a shard, and the halo exchange is not modelled";
  if (is_pool(conv.routine->kind)) return {};
  const std::vector<Axis>&x = tensor_at(program, expression_operands(conv)[0]).axes,
        &w = tensor_at(program, expression_operands(conv)[1]).axes;
  const bool one_group = conv.routine->groups == Polynomial(1);
  const std::size_t channels = conv_axes(*conv.routine, x.size()).channels;
  const bool each_its_own =
      conv.routine->groups == Polynomial::make_symbol(dim) && x[channels].dim == dim && w[0].dim == dim;
  if (one_group || each_its_own || x[0].dim == dim) return {};
  return "its groups would be split";
}

}  // namespace

std::string_view routine_name(RoutineKind kind) {
  switch (kind) {
    case RoutineKind::conv: return "conv";
    case RoutineKind::conv_transpose: return "conv_transpose";
    case RoutineKind::gather: return "gather";
    case RoutineKind::scatter: return "scatter";
    case RoutineKind::cumsum: return "cumsum";
    case RoutineKind::topk: return "topk";
    case RoutineKind::routed: return "routed";
    case RoutineKind::scan: return "scan";
    case RoutineKind::quantize: return "quantize";
    case RoutineKind::argmax: return "argmax";
    case RoutineKind::sort: return "sort";
    case RoutineKind::argsort: return "argsort";
    case RoutineKind::max_pool: return "max_pool";
    case RoutineKind::avg_pool: return "avg_pool";
    case RoutineKind::rotary: return "rotary";
  }
  return "";
}

bool operator==(const Routine& a, const Routine& b) {
  return a.kind == b.kind && a.over == b.over && a.stride == b.stride && a.padding == b.padding &&
         a.dilation == b.dilation && a.groups == b.groups && a.channels_last == b.channels_last &&
         a.format == b.format && a.loads == b.loads && a.capacity == b.capacity && a.window == b.window &&
         a.descending == b.descending && a.base == b.base && a.interleaved == b.interleaved;
}

const Routine* routine_of(const Statement& statement) {
  const auto* expression = std::get_if<Expression>(&statement.op);
  return expression ? expression->routine.get() : nullptr;
}

std::vector<int> expression_operands(const Expression& expression) {
  std::vector<int> out;
  for (const Node& node : expression.nodes)
    if (node.kind == Node::Kind::tensor) out.push_back(node.tensor);
  return out;
}

Routing routing_of(const Program& program, const Expression& routed) {
  return {tensor_at(program, expression_operands(routed)[2]).axes, routed.routine->over.front(), routed.routine->loads,
          routed.routine->capacity};
}

std::vector<WindowDimension> windows_of(const Program& program, const Expression& routine) {
  const std::vector<int> in = expression_operands(routine);
  const std::vector<Axis>&x = tensor_at(program, in[0]).axes, &y = tensor_at(program, routine.result).axes;
  const Routine& r = *routine.routine;
  const auto size_of = [](Axis axis) {
    axis.repetition = 0;
    return axis;
  };
  std::vector<WindowDimension> out;
  if (is_pool(r.kind)) {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (contains(r.over, x[i]))
        out.push_back(
            {size_of(x[i]), size_of(y[i]), {.dim = {}, .literal = r.window}, r.stride, r.padding, r.dilation});
    return out;
  }
  const std::vector<Axis>& w = tensor_at(program, in[1]).axes;
  const std::size_t first = conv_axes(r, x.size()).first_window;
  const bool is_transposed = r.kind == RoutineKind::conv_transpose;
  const std::vector<Axis>&windowed = is_transposed ? y : x, &windows = is_transposed ? x : y;
  for (std::size_t i = first; i < first + x.size() - 2; ++i)
    out.push_back(
        {size_of(windowed[i]), size_of(windows[i]), size_of(w[i]), r.stride, r.padding, r.dilation, is_transposed});
  return out;
}

ConvAxes conv_axes(const Routine& conv, std::size_t axes) {
  return conv.channels_last ? ConvAxes{axes - 1, 1} : ConvAxes{1, 2};
}

ConvChannels conv_channels(const Routine& conv, int input, int result) {
  return conv.kind == RoutineKind::conv_transpose ? ConvChannels{input, result, "input", "result"}
                                                  : ConvChannels{result, input, "result", "input"};
}

std::optional<std::int64_t> count_window_positions(const WindowDimension& w, std::int64_t in, std::int64_t kernel) {
  if (in > max_size || kernel > max_window) return std::nullopt;
  const std::int64_t free_positions = in + 2 * w.padding - w.dilation * (kernel - 1) - 1;
  if (free_positions < 0) return std::nullopt;
  return free_positions / w.stride + 1;
}

std::optional<std::int64_t> min_transposed_size(const WindowDimension& w, std::int64_t in, std::int64_t kernel) {
  constexpr std::int64_t max_windows = std::int64_t{1} << 45;  // times a stride and a window: below 2^62
  if (in > max_windows || kernel > max_window) return std::nullopt;
  return (in - 1) * w.stride - 2 * w.padding + w.dilation * (kernel - 1) + 1;
}

bool has_matching_sizes(const WindowDimension& w, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  if (!w.is_transposed) return count_window_positions(w, in, kernel) == out;
  const auto smallest = min_transposed_size(w, out, kernel);
  return smallest && in >= *smallest && in - *smallest < std::max(w.stride, w.dilation);
}

bool always_gives_result_size(const WindowDimension& w) {
  return always_gives_result_size(w, w.in.extent(), w.out.extent(), w.kernel.extent());
}

bool always_gives_result_size(const WindowDimension& w, const Polynomial& in, const Polynomial& out,
                              const Polynomial& kernel) {
  const Polynomial excess = in - out * Polynomial(w.stride) + Polynomial(2 * w.padding - 1) -
                            (kernel - Polynomial(1)) * Polynomial(w.dilation);
  // The windows fit `out` times if -stride <= excess < 0. A transposed convolution's output padding is excess + stride.
  const std::int64_t end = w.is_transposed ? std::max(w.stride, w.dilation) - w.stride : 0;
  const auto constant = excess.as_constant();
  return constant && constant->denominator() == 1 && constant->numerator() >= -w.stride && constant->numerator() < end;
}

// Returns the dimension of a topk's result that replaces the one that it runs over.
static Axis topk_result_axis(const Program& program, const Expression& topk) {
  const std::vector<Axis>& from = tensor_at(program, expression_operands(topk)[0]).axes;
  for (const Axis& a : tensor_at(program, topk.result).axes)
    if (!contains(from, a)) return a;
  return {.dim = {}, .literal = 1};
}

// Checks that the result's dtype holds the indices along the dimension.
static Status check_index_dtype(const program::SourceText& source, const Program& program, const Expression& e,
                                const Bindings& sizes) {
  constexpr std::int64_t max_int8_indices = 128;
  const auto count = e.routine->over.front().size(sizes);
  const Tensor& result = tensor_at(program, e.result);
  if (!count || *count <= max_int8_indices || result.dtype != DType::int8) return Done{};
  return source.error_at(result.span,
                         fmt::format("int8 holds indices below {}, and {} has {}", max_int8_indices,
                                     program::format_axis(e.routine->over.front()), *count),
                         "declare the result as int32");
}

// Checks that the elements along the dimension form pairs.
static Status check_rotary_size(const program::SourceText& source, const Program& program, const Expression& e,
                                const Bindings& sizes) {
  const Axis& over = e.routine->over.front();
  const auto size = over.size(sizes);
  if (!size || *size % 2 == 0) return Done{};
  return source.error_at(tensor_at(program, e.result).span,
                         fmt::format("rotary rotates pairs of the elements along {}, whose number {} is odd",
                                     program::format_axis(over), *size),
                         "give it an even size");
}

static Status check_routing(const program::SourceText& source, const Program& program, const Expression& e,
                            const Bindings& sizes) {
  const bool chooses = e.routine->kind == RoutineKind::topk;
  const TextSpan span = tensor_at(program, e.result).span;
  const std::vector<Axis> rows =
      chooses ? std::vector<Axis>{topk_result_axis(program, e)} : tensor_at(program, expression_operands(e)[2]).axes;
  const auto experts = e.routine->over.front().size(sizes), each = rows.back().size(sizes);
  if (experts && each && *each > *experts)
    return source.error_at(
        span,
        fmt::format("cannot choose {} of the {} along {}", *each, *experts,
                    program::format_axis(e.routine->over.front())),
        chooses ? "choose fewer"
                : "choose fewer: the last dimension of the indices holds a row's choices, as in i[N, 2]");
  if (e.routine->loads.empty()) return Done{};
  const auto given = static_cast<std::int64_t>(e.routine->loads.size());
  if (experts && *experts != given)
    return source.error_at(span, fmt::format("{} loads are given for {} experts", given, *experts),
                           "give one load per expert, 0 for an unused expert");
  std::int64_t loads = 0, index_count = 1;
  for (const std::int64_t load : e.routine->loads) loads += load;
  for (const Axis& axis : rows) {
    const auto size = axis.size(sizes);
    if (!size || __builtin_mul_overflow(index_count, *size, &index_count)) return Done{};
  }
  if (index_count == loads) return Done{};
  return source.error_at(span, fmt::format("the loads sum to {}, the indices have {}", loads, index_count),
                         "every index goes to an expert; a capacity drops those beyond it");
}

Status validate_routine_sizes(const Program& program, const Bindings& sizes) {
  const program::SourceText source{program.text, program.source};
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!routine) continue;
    const auto& e = std::get<Expression>(statement.op);
    if (routine->kind == RoutineKind::topk || routine->kind == RoutineKind::routed)
      RIDGE_TRY_STATUS(check_routing(source, program, e, sizes));
    if (gives_indices(routine->kind)) RIDGE_TRY_STATUS(check_index_dtype(source, program, e, sizes));
    if (routine->kind == RoutineKind::rotary) RIDGE_TRY_STATUS(check_rotary_size(source, program, e, sizes));
    if (is_conv(routine->kind)) RIDGE_TRY_STATUS(check_groups(source, program, e, sizes));
    if (has_windows(routine->kind))
      for (const WindowDimension& w : windows_of(program, e)) RIDGE_TRY_STATUS(check_window(source, w, sizes));
  }
  return Done{};
}

bool has_block_scaled_factor(const Program& program, const Contraction& product) {
  return is_block_scaled(tensor_at(program, product.left).dtype) ||
         is_block_scaled(tensor_at(program, product.right).dtype);
}

Status validate_block_sizes(const Program& program, const Bindings& sizes) {
  for (const Tensor& t : program.tensors) {
    if (!is_block_scaled(t.dtype) || t.axes.empty()) continue;
    const Axis& last = t.axes.back();
    auto size = last.size(sizes);
    std::int64_t parts = 1;
    for (const char letter : last.mesh)
      if (const auto axis = sizes.find(std::string(1, letter)); axis != sizes.end()) parts *= axis->second;
    const int block = dtype_info(t.dtype).block;
    if (!size || *size % (block * parts) == 0) continue;
    const std::string on_each = parts > 1 ? fmt::format(" on each of {} devices", parts) : "";
    return program::SourceText{program.text, program.source}.error_at(
        t.span,
        fmt::format("'{}' is {}, whose blocks of {} do not divide the {} elements along {}{}", t.name,
                    dtype_name(t.dtype), block, *size, last.is_named() ? last.dim : program::format_axis(last),
                    on_each),
        fmt::format("give it a multiple of {}", block * parts));
  }
  return Done{};
}

Reason split_unsupported_reason(const Program& program, const Statement& statement, const std::string& dim) {
  const Routine* const routine = routine_of(statement);
  if (!routine) return {};
  const auto& expression = std::get<Expression>(statement.op);
  if (has_windows(routine->kind)) return conv_split_unsupported_reason(program, expression, dim);
  const bool runs_along = routine->kind == RoutineKind::cumsum || routine->kind == RoutineKind::scan;
  if (runs_along && has_dim(routine->over, dim)) return "each step needs the previous one";
  if (routine->kind == RoutineKind::rotary && has_dim(routine->over, dim))
    return "the two elements of a pair would be in different shards";
  if (ranks_elements(routine->kind) && routine->kind != RoutineKind::topk && has_dim(routine->over, dim))
    return "the order within a shard is not the order of all";
  if (routine->kind == RoutineKind::topk &&
      (has_dim(routine->over, dim) || topk_result_axis(program, expression).dim == dim))
    return "the top k of a shard are not the top k of all";
  const bool routes =
      routine->kind == RoutineKind::routed &&
      (has_dim(routine->over, dim) || has_dim(tensor_at(program, expression_operands(expression)[2]).axes, dim));
  return routes ? "the experts of a shard and the traffic to them are not modelled" : "";
}

Status check_simulated_statements(const Program& program) {
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (product && product->grouped)
      return input_error(fmt::format("cannot simulate '{}': its operand has {} instead of {}", statement.text,
                                     product->grouped->group, product->grouped->dim),
                         "write both dimensions separately: q[B, G, R, E] rather than q[B, H, E]");
    if (const Routine* const routine = routine_of(statement))
      return input_error(fmt::format("cannot simulate '{}': expected products and elementwise functions, found {}",
                                     statement.text, routine_name(routine->kind)),
                         "`ridge explain` counts it on every machine; `ridge run` computes it");
  }
  return Done{};
}

}  // namespace ridge
