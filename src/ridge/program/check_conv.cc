// Checks convolutions and pools.
// conv(x, w): y[N, K, H, W] from x[N, C, H, W] and w[K, C, 3, 3], or y[N, H, W, K] from x[N, H, W, C] and
// w[K, 3, 3, C]. Dimensions are identified by position: the batch first, the channels second or last, and one to three
// window dimensions. The result's sizes must be
//   floor((in + 2*padding - dilation*(window - 1) - 1)/stride) + 1
// max_pool(x over H, W, window = 3) has a result with the other dimensions of x in their places.
// The parser reports results that are wrong for all sizes; `validate_routine_sizes` checks the others with known sizes.
#include <fmt/format.h>

#include <cstdlib>

#include "ridge/base/contains.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {

bool Parser::check_conv(Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0), w = operand_at_node(1);
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
                        "channels of the result, channels of the input, then the windows: w: bf16[K, C, 3, 3]");
  if (result.axes.size() != x.axes.size())
    return report_error(
        result.span,
        fmt::format("expected a result with {} dimensions, found {}", x.axes.size(), format_axes(result.axes)),
        "the batch, the channels of the result, then the window positions: y[N, K, H, W]");
  routine.channels_last = find_conv_layout(routine, x, w, result);
  return check_conv_sizes(routine, x, w, result);
}

bool Parser::check_conv_sizes(const Routine& routine, const ParsedOperand& x, const ParsedOperand& w,
                              const TensorRef& result) {
  const Axis& channels = result.axes[conv_axes(routine, x.axes.size()).channels];
  if (!result.axes[0].has_same_size(x.axes[0]))
    return report_error(result.axes[0].span,
                        fmt::format("expected the batch {} of {}, found {}", format_axis(x.axes[0]), x.description,
                                    format_axis(result.axes[0])),
                        "the batch is the first dimension of the input and of the result");
  if (!channels.has_same_size(w.axes[0]))
    return report_error(channels.span,
                        fmt::format("expected the channels {} of {}, found {}", format_axis(w.axes[0]), w.description,
                                    format_axis(channels)),
                        "the first dimension of the weights is the second of the result, or its last");
  if (!check_conv_channels(routine, x, w)) return false;
  std::vector<WindowDimension> windows;
  const std::size_t first = conv_axes(routine, x.axes.size()).first_window;
  for (std::size_t i = first; i < first + x.axes.size() - 2; ++i)
    windows.push_back({x.axes[i], result.axes[i], w.axes[i], routine.stride, routine.padding, routine.dilation});
  return check_windows(windows);
}

// Returns whether the channels are last. They are if these sizes fit and those in second place do not, or if only the
// result's do.
bool Parser::find_conv_layout(const Routine& routine, const ParsedOperand& x, const ParsedOperand& w,
                              const TensorRef& result) const {
  const std::size_t last = x.axes.size() - 1;
  const auto results_fit = [&](std::size_t at) { return result.axes[at].has_same_size(w.axes[0]); };
  const auto all_fit = [&](std::size_t at) {
    const auto difference = (routine.groups * w.axes[at].extent() - x.axes[at].extent()).as_constant();
    return results_fit(at) && (difference ? difference->is_zero() : !(routine.groups == Polynomial(1)));
  };
  if (all_fit(1) || all_fit(last)) return !all_fit(1);
  return !results_fit(1) && results_fit(last);
}

bool Parser::check_conv_channels(const Routine& routine, const ParsedOperand& x, const ParsedOperand& w) {
  const std::size_t at = conv_axes(routine, x.axes.size()).channels;
  const Axis &input_channels = x.axes[at], &weight_channels = w.axes[at];
  const auto number = routine.groups.as_constant();
  if (number && *number < Rational(1))
    return report_error(w.span, fmt::format("expected at least 1 group of channels, found {}", number->to_string()),
                        "groups = 1");
  if (routine.groups == Polynomial(1)) {
    if (input_channels.has_same_size(weight_channels)) return true;
    return report_error(
        w.span,
        fmt::format("{}{} has {} channels of the input, {}{} has {}", w.description, format_axes(w.axes),
                    format_axis(weight_channels), x.description, format_axes(x.axes), format_axis(input_channels)),
        "use the same in both; with groups = G the weights have 1/G of them");
  }
  const auto difference = (routine.groups * weight_channels.extent() - input_channels.extent()).as_constant();
  if (!difference || difference->is_zero()) return true;  // else it depends on sizes
  return report_error(
      w.span,
      fmt::format("{} groups of {} channels are not the {} that {} has", routine.groups.to_string(program_.dim_names()),
                  format_axis(weight_channels), format_axis(input_channels), x.description),
      "groups times the channels of the weights are the channels of the input");
}

// Reports window dimensions that are wrong for all sizes.
bool Parser::check_windows(const std::vector<WindowDimension>& windows) {
  for (const WindowDimension& window : windows) {
    const Axis& out = window.out;
    if (always_gives_result_size(window)) continue;
    const bool depends_on_sizes =
        !(window.in.extent() - window.out.extent() * Polynomial(window.stride)).as_constant() ||
        window.kernel.is_named();
    const bool same = window.in.has_same_size(window.out) && out.is_named() && !window.kernel.is_named();
    if (depends_on_sizes && !same) continue;
    if (!out.is_named()) continue;  // literal sizes: `validate_routine_sizes` shows the formula
    if (window.stride > 1)
      return report_error(
          out.span,
          fmt::format("with stride {} the result is shorter than the input along '{}'", window.stride, out.dim),
          "another size has another name: dims P = H/2");
    const std::int64_t window_extent = window.dilation * (window.kernel.literal - 1),
                       difference = 2 * window.padding - window_extent;
    return report_error(
        out.span,
        fmt::format("the result has '{}' positions like the input, but the window has {} {} {}", out.dim, out.dim,
                    difference < 0 ? "-" : "+", std::abs(difference)),
        window_extent % 2 == 0
            ? fmt::format("padding = {} keeps the size; another size has another name", window_extent / 2)
            : "another size has another name: dims P = H - 1");
  }
  return true;
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
