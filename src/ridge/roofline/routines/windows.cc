#include "ridge/roofline/routines/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

constexpr std::int64_t most_marked = 1 << 26;  // elements that are marked one by one

std::optional<std::int64_t> value(const Axis& axis, const Bindings& dims) {
  if (!axis.named()) return axis.literal;
  const auto found = dims.find(axis.dim);
  return found == dims.end() ? std::nullopt : std::optional(found->second);
}

struct Sizes {
  std::int64_t in, out, kernel;
};

std::int64_t up(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// Positions o with 0 <= o*stride + k*dilation - padding < in, for each place k.
std::optional<std::int64_t> taps(const Window& w, const Sizes& s) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < s.kernel; ++k) {
    const std::int64_t shift = k * w.dilation - w.padding;
    const std::int64_t first = up(-shift, w.stride), end = std::min(s.out, up(s.in - shift, w.stride));
    if (__builtin_add_overflow(sum, std::max<std::int64_t>(0, end - first), &sum)) return std::nullopt;
  }
  return sum;
}

// Windows side by side reach what one long window does; windows apart what each one reaches; with holes in them the
// elements are marked.
std::optional<std::int64_t> touched(const Window& w, const Sizes& s) {
  const std::int64_t reach = w.dilation * (s.kernel - 1) + 1;
  if (w.stride >= reach) return taps(w, s);
  if (w.dilation == 1) return std::clamp<std::int64_t>((s.out - 1) * w.stride + reach - w.padding, 0, s.in);
  if (s.in > most_marked || s.in * s.kernel > most_marked) return std::nullopt;
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

std::string free_word(const Program& program, std::string word) {
  const std::vector<std::string> dims = program.dim_names();
  while (std::any_of(dims.begin(), dims.end(), [&](const std::string& dim) { return dim.starts_with(word); }))
    word += "_";
  return word;
}

// Of the masks that are alike the first; else a new one.
int index_of(Masks& masks, const Window& window, WindowCount what, const std::string& word) {
  Mask mask{.rows = window.out.dim, .columns = window.kernel.dim, .window = window, .of_window = what};
  std::size_t alike = 0;
  for (std::size_t i = 0; i < masks.all.size(); ++i) {
    if (masks.all[i].same_condition(mask)) return static_cast<int>(i);
    alike += masks.all[i].window && masks.all[i].of_window == what;
  }
  mask.symbol = alike == 0 ? word : fmt::format("{}{}", word, alike + 1);
  masks.all.push_back(std::move(mask));
  return static_cast<int>(masks.all.size()) - 1;
}

}  // namespace

void add_windows(const Program& program, Masks& masks) {
  std::string tap_word, touched_word;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Routine* const routine = routine_of(program.statements[s]);
    if (!routine || routine->word != Word::conv) continue;
    if (tap_word.empty()) {
      tap_word = free_word(program, "taps");
      touched_word = free_word(program, "touched");
    }
    for (const Window& w : windows(program, std::get<Expression>(program.statements[s].op))) {
      masks.statements[s].taps.push_back(index_of(masks, w, WindowCount::taps, tap_word));
      masks.statements[s].touched.push_back(index_of(masks, w, WindowCount::touched, touched_word));
    }
  }
}

std::vector<std::string> hangs_on(const Window& window) {
  std::vector<std::string> out;
  for (const Axis* axis : {&window.in, &window.out, &window.kernel})
    if (axis->named()) out.push_back(axis->dim);
  return out;
}

std::optional<std::int64_t> counted(const Window& window, WindowCount what, const Bindings& dims) {
  const auto in = value(window.in, dims), out = value(window.out, dims), kernel = value(window.kernel, dims);
  if (!in || !out || !kernel || positions(window, *in, *kernel) != *out) return std::nullopt;
  const Sizes sizes{*in, *out, *kernel};
  return what == WindowCount::taps ? taps(window, sizes) : touched(window, sizes);
}

Polynomial every(const Window& window, WindowCount what) {
  return what == WindowCount::taps ? window.out.extent() * window.kernel.extent() : window.in.extent();
}

std::optional<Polynomial> plain(const Window& w, WindowCount what) {
  const std::int64_t kernel = w.kernel.named() || w.kernel.literal > longest_window ? 0 : w.kernel.literal;  // 0: open
  const bool apart = kernel > 0 && w.stride > w.dilation * (kernel - 1);
  if (what == WindowCount::taps || (apart && w.padding == 0)) {
    if (w.padding == 0) return w.out.extent() * w.kernel.extent();
    return std::nullopt;
  }
  // Side by side, and what the last one leaves is less than the padding in front of the first one.
  const bool together = w.dilation == 1 && (w.stride == 1 || kernel >= w.stride);
  return together && w.stride - 1 <= w.padding ? std::optional(w.in.extent()) : std::nullopt;
}

bool always_fits(const Program& program, const Window& window, const Bindings& given) {
  const auto value_of = [&](const Axis& axis) {
    for (const Dimension& d : program.dims)
      if (d.name == axis.dim && d.value && !d.value->constant() && !given.contains(d.name)) return *d.value;
    return axis.extent();
  };
  return always_fits(window, value_of(window.in), value_of(window.out), window.kernel.extent());
}

std::string text(const Window& w, WindowCount what) {
  const std::string in = notation::text(w.in), out = notation::text(w.out), kernel = notation::text(w.kernel);
  std::string place = w.stride == 1 ? fmt::format("index({})", out) : fmt::format("{}*index({})", w.stride, out);
  place += w.dilation == 1 ? fmt::format(" + index({})", kernel) : fmt::format(" + {}*index({})", w.dilation, kernel);
  if (w.padding > 0) place += fmt::format(" - {}", w.padding);
  return what == WindowCount::taps ? fmt::format("0 <= {} < {}", place, in) : fmt::format("at {}", place);
}

std::string misfit(const Window& w) {
  return fmt::format("{} is not what the windows make of {}", notation::text(w.out), notation::text(w.in));
}

}  // namespace ridge
