#include "ridge/roofline/routines/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

constexpr std::int64_t max_tested_elements = 1 << 26;  // Limit of the elements that are tested one by one

struct WindowSizes {
  std::int64_t in, out, kernel;
};

std::int64_t ceil_div_nonnegative(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// Counts positions o with 0 <= o*stride + k*dilation - padding < in, for each tap k.
std::optional<std::int64_t> count_taps(const WindowDimension& w, const WindowSizes& s) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < s.kernel; ++k) {
    const std::int64_t shift = k * w.dilation - w.padding;
    const std::int64_t first = ceil_div_nonnegative(-shift, w.stride),
                       end = std::min(s.out, ceil_div_nonnegative(s.in - shift, w.stride));
    if (__builtin_add_overflow(sum, std::max<std::int64_t>(0, end - first), &sum)) return std::nullopt;
  }
  return sum;
}

// Contiguous windows read the elements of one long window, disjoint windows those of their taps. For dilated windows,
// every element is tested.
std::optional<std::int64_t> count_touched(const WindowDimension& w, const WindowSizes& s) {
  const std::int64_t window_span = w.dilation * (s.kernel - 1) + 1;
  if (w.stride >= window_span) return count_taps(w, s);
  if (w.dilation == 1) return std::clamp<std::int64_t>((s.out - 1) * w.stride + window_span - w.padding, 0, s.in);
  if (s.in > max_tested_elements || s.in * s.kernel > max_tested_elements) return std::nullopt;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < s.in; ++i)
    for (std::int64_t k = 0; k < s.kernel; ++k) {
      const std::int64_t at = i + w.padding - k * w.dilation;
      if (at < 0 || at % w.stride != 0 || at / w.stride >= s.out) continue;
      ++sum;
      break;
    }
  return sum;
}

// Counts the elements i of a transposed convolution's input with 0 <= i*stride + k*dilation - padding < in for some tap
// k. The first tap that is not before the result must be inside of it. Without dilation these elements are contiguous.
std::optional<std::int64_t> count_transposed_reads(const WindowDimension& w, const WindowSizes& s) {
  if (w.padding == 0) return s.out;
  if (w.dilation == 1)
    return std::max<std::int64_t>(0, std::min(s.out, ceil_div_nonnegative(s.in + w.padding, w.stride)) -
                                         ceil_div_nonnegative(w.padding - (s.kernel - 1), w.stride));
  if (s.out > max_tested_elements) return std::nullopt;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < s.out; ++i) {
    const std::int64_t k = ceil_div_nonnegative(w.padding - i * w.stride, w.dilation);
    sum += k < s.kernel && i * w.stride + k * w.dilation - w.padding < s.in;
  }
  return sum;
}

// Returns the index of an equal mask, or adds a mask.
int find_or_add_mask(ProgramMasks& masks, const WindowDimension& window, WindowCount what, const std::string& symbol) {
  IndexMask mask{.rows = window.out.dim, .columns = window.kernel.dim, .window = window, .window_count = what};
  std::size_t same_kind = 0;
  for (std::size_t i = 0; i < masks.all.size(); ++i) {
    if (masks.all[i].has_same_condition(mask)) return static_cast<int>(i);
    same_kind += masks.all[i].window && masks.all[i].window_count == what;
  }
  mask.symbol = same_kind == 0 ? symbol : fmt::format("{}{}", symbol, same_kind + 1);
  masks.all.push_back(std::move(mask));
  return static_cast<int>(masks.all.size()) - 1;
}

}  // namespace

void add_window_masks(const Program& program, ProgramMasks& masks) {
  std::string tap_symbol, touched_symbol;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Routine* const routine = routine_of(program.statements[s]);
    if (!routine || !has_windows(routine->kind)) continue;
    if (tap_symbol.empty()) {
      tap_symbol = make_unused_symbol(program, "taps");
      touched_symbol = make_unused_symbol(program, "touched");
    }
    for (const WindowDimension& w : windows_of(program, std::get<Expression>(program.statements[s].op))) {
      masks.statements[s].taps.push_back(find_or_add_mask(masks, w, WindowCount::taps, tap_symbol));
      masks.statements[s].touched.push_back(find_or_add_mask(masks, w, WindowCount::touched, touched_symbol));
    }
  }
}

std::vector<std::string> dependency_dims(const WindowDimension& window) {
  std::vector<std::string> out;
  for (const Axis* axis : {&window.in, &window.out, &window.kernel})
    if (axis->is_named()) out.push_back(axis->dim);
  return out;
}

std::optional<std::int64_t> count_window(const WindowDimension& window, WindowCount what, const Bindings& dims) {
  const auto in = window.in.size(dims), out = window.out.size(dims), kernel = window.kernel.size(dims);
  if (!in || !out || !kernel || !has_matching_sizes(window, *in, *out, *kernel)) return std::nullopt;
  const WindowSizes sizes{*in, *out, *kernel};
  if (what == WindowCount::taps) return count_taps(window, sizes);
  return window.is_transposed ? count_transposed_reads(window, sizes) : count_touched(window, sizes);
}

Polynomial full_window_count(const WindowDimension& window, WindowCount what) {
  if (what == WindowCount::taps) return window.out.extent() * window.kernel.extent();
  return window.is_transposed ? window.out.extent() : window.in.extent();
}

std::optional<Polynomial> window_closed_form(const WindowDimension& w, WindowCount what) {
  const std::int64_t kernel = w.kernel.is_named() || w.kernel.literal > max_window ? 0 : w.kernel.literal;
  if (w.is_transposed && what == WindowCount::touched) {
    const bool all = w.padding == 0 || (w.dilation == 1 && w.padding < kernel);  // each element has a tap in the result
    return all ? std::optional(w.out.extent()) : std::nullopt;
  }
  const bool disjoint = kernel > 0 && w.stride > w.dilation * (kernel - 1);
  if (what == WindowCount::taps || (disjoint && w.padding == 0)) {
    if (w.padding == 0) return w.out.extent() * w.kernel.extent();
    return std::nullopt;
  }
  // The windows are contiguous, and the elements after the last one are fewer than the padding before the first one.
  const bool contiguous = w.dilation == 1 && (w.stride == 1 || kernel >= w.stride);
  return contiguous && w.stride - 1 <= w.padding ? std::optional(w.in.extent()) : std::nullopt;
}

bool always_gives_result_size(const Program& program, const WindowDimension& window, const Bindings& given) {
  const auto substituted_size = [&](const Axis& axis) {
    for (const Dimension& d : program.dims)
      if (d.name == axis.dim && d.value && !d.value->as_constant() && !given.contains(d.name)) return *d.value;
    return axis.extent();
  };
  return always_gives_result_size(window, substituted_size(window.in), substituted_size(window.out),
                                  window.kernel.extent());
}

std::string format_window(const WindowDimension& w, WindowCount what) {
  const std::string in = program::format_axis(w.in), out = program::format_axis(w.out),
                    kernel = program::format_axis(w.kernel);
  std::string position = w.stride == 1 ? fmt::format("index({})", out) : fmt::format("{}*index({})", w.stride, out);
  position +=
      w.dilation == 1 ? fmt::format(" + index({})", kernel) : fmt::format(" + {}*index({})", w.dilation, kernel);
  if (w.padding > 0) position += fmt::format(" - {}", w.padding);
  if (what == WindowCount::taps) return fmt::format("0 <= {} < {}", position, in);
  return w.is_transposed ? fmt::format("with 0 <= {} < {}", position, in) : fmt::format("at {}", position);
}

std::string window_mismatch_text(const WindowDimension& w) {
  if (w.is_transposed)
    return fmt::format("{} is not a size that the result can have for {} windows", program::format_axis(w.in),
                       program::format_axis(w.out));
  return fmt::format("{} is not the number of windows over {}", program::format_axis(w.out),
                     program::format_axis(w.in));
}

}  // namespace ridge
