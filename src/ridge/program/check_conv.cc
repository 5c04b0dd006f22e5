// Checks convolutions and pools.
// conv(x, w): y[N, K, H, W] from x[N, C, H, W] and w[K, C, 3, 3], or y[N, H, W, K] from x[N, H, W, C] and
// w[K, 3, 3, C]. Dimensions are identified by position: the batch first, the channels second or last, and one to three
// window dimensions. The result's sizes must be
//   floor((in + 2*padding - dilation*(window - 1) - 1)/stride) + 1
// conv_transpose(x, w): y[N, K, P, Q] from x[N, C, H, W] and w[C, K, 3, 3], with the input and the result of a
// convolution exchanged.
// max_pool(x over H, W, window = 3) has a result with the other dimensions of x in their places.
// The parser reports results that are wrong for all sizes; `validate_routine_sizes` checks the others with known sizes.
#include <fmt/format.h>

#include <cstdlib>

#include "ridge/base/contains.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {

// Tensors of a convolution, and two of them in the roles of ConvChannels (routine.h).
struct Parser::ConvOperands {
  ParsedOperand x, w;
  AxesOfOperand leading, grouped;
  bool is_transposed;
};

bool Parser::check_conv(Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0), w = operand_at_node(1);
  const bool is_transposed = routine.kind == RoutineKind::conv_transpose;
  constexpr std::size_t min_axes = 3, max_axes_of_conv = 5;
  if (x.axes.size() < min_axes || x.axes.size() > max_axes_of_conv)
    return report_error(x.span,
                        fmt::format("expected a batch, channels and one to three window dimensions, found {}{}",
                                    x.description, format_axes(x.axes)),
                        "such as x: bf16[N, C, H, W]");
  if (w.axes.size() != x.axes.size())
    return report_error(w.span,
                        fmt::format("expected weights with {} dimensions, found {}{}", x.axes.size(), w.description,
                                    format_axes(w.axes)),
                        is_transposed
                            ? "channels of the input, channels of the result, then the windows: w: bf16[C, K, 3, 3]"
                            : "channels of the result, channels of the input, then the windows: w: bf16[K, C, 3, 3]");
  if (result.axes.size() != x.axes.size())
    return report_error(
        result.span,
        fmt::format("expected a result with {} dimensions, found {}", x.axes.size(), format_axes(result.axes)),
        is_transposed ? "the batch, the channels of the result, then the sizes that windows fill: y[N, K, P, Q]"
                      : "the batch, the channels of the result, then the window positions: y[N, K, H, W]");
  const AxesOfOperand input{x.axes, x.description, x.span}, output{result.axes, "the result ", result.span};
  const ConvOperands operands =
      is_transposed ? ConvOperands{x, w, input, output, true} : ConvOperands{x, w, output, input, false};
  routine.channels_last = find_conv_layout(routine, operands);
  return check_conv_sizes(routine, operands, result);
}

bool Parser::check_conv_sizes(const Routine& routine, const ConvOperands& operands, const TensorRef& result) {
  const auto& [x, w, leading, grouped, is_transposed] = operands;
  const Axis& channels = leading.axes[conv_axes(routine, x.axes.size()).channels];
  if (!result.axes[0].has_same_size(x.axes[0]))
    return report_error(result.axes[0].span,
                        fmt::format("expected the batch {} of {}, found {}", format_axis(x.axes[0]), x.description,
                                    format_axis(result.axes[0])),
                        "the batch is the first dimension of the input and of the result");
  if (!channels.has_same_size(w.axes[0]) && is_transposed)
    return report_error(w.span,
                        fmt::format("expected the channels {} of {} first, found {}{}", format_axis(channels),
                                    x.description, w.description, format_axes(w.axes)),
                        "the first dimension of the weights is the second of the input, or its last");
  if (!channels.has_same_size(w.axes[0]))
    return report_error(channels.span,
                        fmt::format("expected the channels {} of {}, found {}", format_axis(w.axes[0]), w.description,
                                    format_axis(channels)),
                        "the first dimension of the weights is the second of the result, or its last");
  if (!check_conv_channels(routine, operands)) return false;
  std::vector<WindowDimension> windows;
  const std::size_t first = conv_axes(routine, x.axes.size()).first_window;
  for (std::size_t i = first; i < first + x.axes.size() - 2; ++i)
    windows.push_back({grouped.axes[i], leading.axes[i], w.axes[i], routine.stride, routine.padding, routine.dilation,
                       is_transposed});
  return check_windows(windows);
}

// True if the channels are last. They are if the sizes of the channels match there and not in second place. If they
// match in neither, the channels are last if only there the size matches the first axis of the weights.
bool Parser::find_conv_layout(const Routine& routine, const ConvOperands& operands) const {
  const std::vector<Axis>& w = operands.w.axes;
  const std::size_t last = w.size() - 1;
  const auto first_fits = [&](std::size_t at) { return operands.leading.axes[at].has_same_size(w[0]); };
  const auto all_fit = [&](std::size_t at) {
    const auto difference = (routine.groups * w[at].extent() - operands.grouped.axes[at].extent()).as_constant();
    return first_fits(at) && (difference ? difference->is_zero() : !(routine.groups == Polynomial(1)));
  };
  if (all_fit(1) || all_fit(last)) return !all_fit(1);
  return !first_fits(1) && first_fits(last);
}

bool Parser::check_conv_channels(const Routine& routine, const ConvOperands& operands) {
  const ParsedOperand& w = operands.w;
  const AxesOfOperand& grouped = operands.grouped;
  const std::string_view role = operands.is_transposed ? "result" : "input";
  const std::size_t at = conv_axes(routine, w.axes.size()).channels;
  const Axis &channels = grouped.axes[at], &weight_channels = w.axes[at];
  const auto number = routine.groups.as_constant();
  if (number && *number < Rational(1))
    return report_error(w.span, fmt::format("expected at least 1 group of channels, found {}", number->to_string()),
                        "groups = 1");
  if (routine.groups == Polynomial(1)) {
    if (channels.has_same_size(weight_channels)) return true;
    return report_error(w.span,
                        fmt::format("{}{} has {} channels of the {}, {}{} has {}", w.description, format_axes(w.axes),
                                    format_axis(weight_channels), role, grouped.description, format_axes(grouped.axes),
                                    format_axis(channels)),
                        "use the same in both; with groups = G the weights have 1/G of them");
  }
  const auto difference = (routine.groups * weight_channels.extent() - channels.extent()).as_constant();
  if (!difference || difference->is_zero()) return true;  // else it depends on sizes
  return report_error(w.span,
                      fmt::format("{} groups of {} channels are not the {} that {} has",
                                  routine.groups.to_string(program_.dim_names()), format_axis(weight_channels),
                                  format_axis(channels), operands.is_transposed ? "the result" : grouped.description),
                      fmt::format("groups times the channels of the weights are the channels of the {}", role));
}

// Reports window dimensions that are wrong for all sizes.
bool Parser::check_windows(const std::vector<WindowDimension>& windows) {
  for (const WindowDimension& window : windows) {
    const Axis& out = window.result();
    if (always_gives_result_size(window)) continue;
    const bool depends_on_sizes =
        !(window.in.extent() - window.out.extent() * Polynomial(window.stride)).as_constant() ||
        window.kernel.is_named();
    const bool same = window.in.has_same_size(window.out) && out.is_named() && !window.kernel.is_named();
    if (depends_on_sizes && !same) continue;
    if (!out.is_named()) continue;  // literal sizes: `validate_routine_sizes` shows the formula
    return report_window(window);
  }
  return true;
}

// Reports a window dimension whose result has the name of the input's size, but another size.
bool Parser::report_window(const WindowDimension& window) {
  const Axis& out = window.result();
  const bool is_transposed = window.is_transposed;
  if (window.stride > 1)
    return report_error(out.span,
                        fmt::format("with stride {} the result is {} than the input along '{}'", window.stride,
                                    is_transposed ? "longer" : "shorter", out.dim),
                        fmt::format("another size has another name: dims P = {}", is_transposed ? "2*H" : "H/2"));
  const std::int64_t window_extent = window.dilation * (window.kernel.literal - 1),
                     difference = (2 * window.padding - window_extent) * (is_transposed ? -1 : 1);
  return report_error(out.span,
                      fmt::format("the result has '{}' {} like the input, but the window {} {} {} {}", out.dim,
                                  is_transposed ? "elements" : "positions", is_transposed ? "makes" : "has", out.dim,
                                  difference < 0 ? "-" : "+", std::abs(difference)),
                      window_extent % 2 == 0
                          ? fmt::format("padding = {} keeps the size; another size has another name", window_extent / 2)
                          : fmt::format("another size has another name: dims P = H {} 1", is_transposed ? "+" : "-"));
}

// Parses the dimensions of a pool's windows, up to its options.
bool Parser::parse_pool_dimensions(Routine& out) {
  constexpr std::size_t max_dimensions = 3;
  do {
    if (peek().kind == TokenKind::name && !dim_index_.contains(std::string(peek().text)))
      return report_unknown_dimension(peek());
    if (!parse_axis(out.over)) return false;
    if (out.over.size() > max_dimensions)
      return report_error(out.over.back().span,
                          fmt::format("expected at most {} dimensions with a window, found more", max_dimensions),
                          "pool the others in a statement of their own");
  } while (!(peek().is_symbol(",") && peek(2).is_symbol("=")) && accept_symbol(","));
  return true;
}

bool Parser::check_pool(const Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0);
  for (const Axis& a : routine.over)
    if (!check_is_dimension(a, x)) return false;
  const AxesOfOperand argument{x.axes, x.description, x.span},
      over{routine.over, fmt::format("'{}'", routine_name(routine.kind)), routine.over.front().span};
  for (const Axis& a : x.axes)
    if (a.repetition > 0 && !check_size_count({over}, argument, a)) return false;
  if (result.axes.size() != x.axes.size())
    return report_error(
        result.span,
        fmt::format("expected a result with {} dimensions, found {}", x.axes.size(), format_axes(result.axes)),
        "the dimensions of the argument, with the number of window positions in place of those with a window");
  std::vector<WindowDimension> windows;
  for (std::size_t i = 0; i < x.axes.size(); ++i) {
    const Axis &in = x.axes[i], &out = result.axes[i], window{.dim = {}, .literal = routine.window};
    if (contains(routine.over, in)) {
      windows.push_back({in, out, window, routine.stride, routine.padding, routine.dilation});
    } else if (!in.has_same_size(out)) {
      return report_error(out.span,
                          fmt::format("expected {} of {}, found {}", format_axis(in), x.description, format_axis(out)),
                          "dimensions without a window stay in their places");
    }
  }
  return check_windows(windows);
}

}  // namespace ridge::program
