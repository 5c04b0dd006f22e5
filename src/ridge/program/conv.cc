// conv(x, w): y[N, K, H, W] from x[N, C, H, W] and w[K, C, 3, 3], by the places of the dimensions: the batch, the
// channels, one to three window dimensions. The result's sizes are those of
//   floor((in + 2*padding - dilation*(window - 1) - 1)/stride) + 1
// which is said at once where no size can make it right, else where sizes are known (routine_fault).
#include <fmt/format.h>

#include <cstdlib>

#include "ridge/program/parser.h"

namespace ridge::notation {

bool Parser::conv_agrees(const Routine& routine, const Mention& result) {
  const Operand x = operand(0), w = operand(1);
  constexpr std::size_t fewest = conv_batch_and_channels + 1, most = conv_batch_and_channels + 3;
  if (!repeats(x.tensor, x.span)) return false;
  if (x.axes.size() < fewest || x.axes.size() > most)
    return fail(x.span,
                fmt::format("expected a batch, channels and one to three window dimensions, found {}{}", x.called,
                            text(x.axes)),
                "such as x: bf16[N, C, H, W]");
  if (w.axes.size() != x.axes.size())
    return fail(w.span,
                fmt::format("expected weights with {} dimensions, found {}{}", x.axes.size(), w.called, text(w.axes)),
                "channels of the result, channels of the input, then the windows: w: bf16[K, C, 3, 3]");
  if (result.axes.size() != x.axes.size())
    return fail(result.span,
                fmt::format("expected a result with {} dimensions, found {}", x.axes.size(), text(result.axes)),
                "the batch, the channels of the result, then where the windows lie: y[N, K, H, W]");
  if (!(result.axes[0] == x.axes[0]))
    return fail(result.axes[0].span,
                fmt::format("expected the batch {} of {}, found {}", text(x.axes[0]), x.called, text(result.axes[0])),
                "the batch stands first in the input and in the result");
  if (!(result.axes[1] == w.axes[0]))
    return fail(
        result.axes[1].span,
        fmt::format("expected the channels {} of {}, found {}", text(w.axes[0]), w.called, text(result.axes[1])),
        "the first dimension of the weights is the second of the result");
  return conv_channels(routine, x, w) && conv_windows(routine, x, w, result);
}

bool Parser::conv_channels(const Routine& routine, const Operand& x, const Operand& w) {
  const Axis &all = x.axes[1], &own = w.axes[1];
  const auto number = routine.groups.constant();
  if (number && *number < Rational(1))
    return fail(w.span, fmt::format("expected at least 1 group of channels, found {}", number->text()), "groups = 1");
  if (routine.groups == Polynomial(1)) {
    if (all == own) return true;
    return fail(w.span,
                fmt::format("{}{} has {} channels of the input, {}{} has {}", w.called, text(w.axes), text(own),
                            x.called, text(x.axes), text(all)),
                "write the same in both; with groups = G the weights have a G-th of them");
  }
  const auto apart = (routine.groups * own.extent() - all.extent()).constant();
  if (!apart || apart->zero()) return true;  // else it hangs on sizes
  return fail(w.span,
              fmt::format("{} groups of {} channels are not the {} that {} has",
                          routine.groups.text(program_.dim_names()), text(own), text(all), x.called),
              "groups times the second size of the weights is the second size of the input");
}

// What is wrong whatever the sizes are.
bool Parser::conv_windows(const Routine& routine, const Operand& x, const Operand& w, const Mention& result) {
  for (std::size_t i = conv_batch_and_channels; i < x.axes.size(); ++i) {
    const Window window{x.axes[i], result.axes[i], w.axes[i], routine.stride, routine.padding, routine.dilation};
    const Axis& out = result.axes[i];
    if (always_fits(window)) continue;
    const bool hangs_on_sizes =
        !(window.in.extent() - window.out.extent() * Polynomial(window.stride)).constant() || window.kernel.named();
    const bool same = window.in == window.out && out.named() && !window.kernel.named();
    if (hangs_on_sizes && !same) continue;
    if (!out.named()) continue;  // numbers alone: the formula is shown where sizes are bound
    if (window.stride > 1)
      return fail(out.span,
                  fmt::format("with stride {} the result is shorter than the input along '{}'", window.stride, out.dim),
                  "another size has another name: dims P = H/2");
    const std::int64_t reach = window.dilation * (window.kernel.literal - 1), more = 2 * window.padding - reach;
    return fail(out.span,
                fmt::format("the result has '{}' positions as the input has, the window takes {} {} {}", out.dim,
                            out.dim, more < 0 ? "-" : "+", std::abs(more)),
                reach % 2 == 0 ? fmt::format("padding = {} keeps the size; another size has another name", reach / 2)
                               : "another size has another name: dims P = H - 1");
  }
  return true;
}

}  // namespace ridge::notation
