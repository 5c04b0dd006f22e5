// Copies rows of a convolution's windows to panels. Compiled once per instruction set. A row consists of runs: outputs
// along the last axis, which read elements of x that are `stride` apart.
#include <algorithm>

#include "ridge/base/check.h"
#include "ridge/base/float16.h"
#include "ridge/ops/product/windows/walks.h"
#if defined(__AVX512BW__)
#include "ridge/ops/product/windows/planes.h"
#endif

namespace ridge::ops {
namespace {

using Offsets = std::array<const KernelOffset*, 3>;

// Goes through the rows of k: the channel and the element of the kernel.
class KernelWalk {
 public:
  explicit KernelWalk(const WindowCopy& copy) : copy_(copy) {
    const std::array<WindowAxis, 3>& axes = copy.operand.windows->axes;
    channel_size_ = axes[0].in * axes[1].in * axes[2].in;
    const std::int64_t kernel = axes[0].kernel * axes[1].kernel * axes[2].kernel;
    channel_ = copy.k.begin / kernel;
    at_ = {copy.k.begin % kernel / (axes[1].kernel * axes[2].kernel), copy.k.begin / axes[2].kernel % axes[1].kernel,
           copy.k.begin % axes[2].kernel};
  }
  const std::array<std::int64_t, 3>& position() const { return at_; }
  Offsets offsets() const { return {offset_of(0), offset_of(1), offset_of(2)}; }
  // Returns the position of the input of output (0, 0, 0), which may be outside of x.
  std::int64_t first_input() const {
    const std::array<WindowAxis, 3>& axes = copy_.operand.windows->axes;
    return channel_ * channel_size_ + (offset_of(0)->first * axes[1].in + offset_of(1)->first) * axes[2].in +
           offset_of(2)->first;
  }
  void advance() {
    for (std::size_t d = 3; d-- > 0; at_[d] = 0)
      if (++at_[d] < copy_.operand.windows->axes[d].kernel) return;
    ++channel_;
  }

 private:
  const KernelOffset* offset_of(std::size_t axis) const { return &copy_.operand.offsets[axis][at_[axis]]; }
  const WindowCopy& copy_;
  std::int64_t channel_size_, channel_;
  std::array<std::int64_t, 3> at_;
};

bool contains(const KernelOffset& offset, std::int64_t output) { return output >= offset.begin && output < offset.end; }

// Writes n outputs from o2 on: line[stride * i] where x has an element, else 0.
template <class T>
void write_run(const T* line, std::int64_t stride, std::int64_t begin, std::int64_t end, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < begin; ++i) out[i] = T{};
  for (std::int64_t i = begin; i < end; ++i) out[i] = line[stride * i];
  for (std::int64_t i = end; i < n; ++i) out[i] = T{};
}

// Copies runs that stay within a panel, one after the other.
template <class T> void copy_runs(const WindowCopy& copy) {
  RIDGE_CHECK(copy.to.per_unit == 1, "pairs need panels of whole vectors");
  const std::array<WindowAxis, 3>& axes = copy.operand.windows->axes;
  const T* const x = static_cast<const T*>(copy.input);
  KernelWalk row(copy);
  for (std::int64_t k = 0; k < copy.k.size; ++k, row.advance()) {
    const auto [a, b, c] = row.offsets();
    OutputWalk at(axes, copy.columns.begin);
    for (std::int64_t column = 0; column < copy.columns.size;) {
      const std::int64_t n =
          std::min({at.run_length(), copy.columns.size - column, copy.to.panel - column % copy.to.panel});
      const bool inside = contains(*a, at.o[0]) && contains(*b, at.o[1]);
      const std::int64_t begin = inside ? std::clamp(c->begin - at.o[2], std::int64_t{0}, n) : 0,
                         end = inside ? std::clamp(c->end - at.o[2], begin, n) : 0;
      const T* const line = inside ? x + row.first_input() + at.input() : nullptr;
      write_run(line, axes[2].stride, begin, end, panel_address<T>(copy, column) + k * copy.to.row_stride, n);
      column += n;
      at.advance(n);
    }
  }
}

#if defined(__AVX512BW__)
// Returns the planes of the calling thread. The function is not inlined, because in shared libraries the compiler would
// look up the address of the thread's object in inner loops.
template <class T, class Source = T> [[gnu::noinline]] PlaneCopy<T, Source>& thread_planes() {
  thread_local PlaneCopy<T, Source> planes;
  return planes;
}

// Pairs the groups of all full vectors of the weights, and returns their number. A vector permutes the groups that fit
// in it, and its store may overlap the next groups, which are written later.
std::int64_t pair_full_vectors(std::int64_t kernel, std::int64_t groups, const std::uint16_t* from, std::uint16_t* to) {
  constexpr std::int64_t lanes = 32;
  const std::int64_t group = 2 * kernel, together = lanes / group;
  if (together == 0) return 0;
  std::uint16_t indices[lanes] = {};
  for (std::int64_t i = 0; i < together * group; ++i)
    indices[i] = static_cast<std::uint16_t>(i / group * group + i % 2 * kernel + i % group / 2);
  const __m512i order = _mm512_loadu_si512(indices);
  std::int64_t done = 0;
  for (; done * group + lanes <= groups * group; done += together)
    _mm512_storeu_si512(to + done * group, _mm512_permutexvar_epi16(order, _mm512_loadu_si512(from + done * group)));
  return done;
}
#endif

template <class T> void copy_elements(const WindowCopy& copy) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(T) > 1)
    if (copy.to.panel % PlaneCopy<T>::lanes == 0) return thread_planes<T>().copy_columns(copy);
#endif
  copy_runs<T>(copy);
}

}  // namespace
}  // namespace ridge::ops

namespace ridge::ops::RIDGE_BODY_ISA {

void copy_windows(const WindowCopy& copy) {  // only the size of elements matters
  switch (copy.operand.element_bytes) {
    case 1: return copy_elements<std::int8_t>(copy);
    case 2: return copy_elements<Bf16>(copy);
    default: return copy_elements<float>(copy);
  }
}

tile::PlacedRows place_windows([[maybe_unused]] const WindowCopy& copy) {
#if defined(__AVX512BW__)
  if (copy.operand.pairs_channels) return thread_planes<std::uint32_t, std::uint16_t>().place_columns(copy);
  if (copy.operand.element_bytes == 4) return thread_planes<float>().place_columns(copy);
#endif
  return {};
}

void pair_channels(const WeightPairs& pairs) {
  const auto* from = static_cast<const std::uint16_t*>(pairs.from);
  auto* to = static_cast<std::uint16_t*>(pairs.to);
  std::int64_t done = 0;
#if defined(__AVX512BW__)
  done = pair_full_vectors(pairs.kernel, pairs.groups, from, to);
#endif
  for (std::int64_t g = done; g < pairs.groups; ++g)
    for (std::int64_t t = 0; t < 2 * pairs.kernel; ++t)
      to[2 * pairs.kernel * g + t] = from[2 * pairs.kernel * g + t % 2 * pairs.kernel + t / 2];
}

}  // namespace ridge::ops::RIDGE_BODY_ISA
