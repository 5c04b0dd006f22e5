// Copies rows of a convolution's windows to panels. Compiled once per instruction set. A row consists of runs: outputs
// along the last axis, which read elements of x that are `stride` apart.
#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

#include "ridge/base/check.h"
#include "ridge/base/float16.h"
#include "ridge/ops/product/windows/operand.h"

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

// Goes through the columns: outputs (o0, o1, o2), of which o2 … o2 + run_length() - 1 are one run.
struct OutputWalk {
  const std::array<WindowAxis, 3>& axes;
  std::array<std::int64_t, 3> o;
  OutputWalk(const std::array<WindowAxis, 3>& of, std::int64_t column)
      : axes(of), o{column / (of[1].out * of[2].out), column / of[2].out % of[1].out, column % of[2].out} {}
  std::int64_t run_length() const { return axes[2].out - o[2]; }
  // Returns the position in x that kernel element (0, 0, 0) without padding reads.
  std::int64_t input() const {
    return (o[0] * axes[0].stride * axes[1].in + o[1] * axes[1].stride) * axes[2].in + o[2] * axes[2].stride;
  }
  void advance(std::int64_t count) {
    o[2] += count;
    if (o[2] < axes[2].out) return;
    o[2] = 0;
    if (++o[1] < axes[1].out) return;
    o[1] = 0;
    ++o[0];
  }
};

template <class T> T* panel_address(const WindowCopy& copy, std::int64_t column) {
  return static_cast<T*>(copy.to.data) + column / copy.to.panel * copy.to.panel_stride +
         column % copy.to.panel * copy.to.per_unit;
}

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
// The part of the rows of k that is the same for all columns. The elements of the kernel repeat.
struct RowTable {
  std::vector<std::int64_t> first_inputs;
  std::vector<std::array<std::int64_t, 3>> kernel;  // elements of the first rows, at most one kernel
  void fill(const WindowCopy& copy) {
    first_inputs.clear();
    kernel.clear();
    std::int64_t elements = 1;
    for (const WindowAxis& axis : copy.operand.windows->axes) elements *= axis.kernel;
    KernelWalk row(copy);
    for (std::int64_t k = 0; k < copy.k.size; ++k, row.advance()) {
      first_inputs.push_back(row.first_input());
      if (k < elements) kernel.push_back(row.position());
    }
  }
};

// Masks of the lanes of a vector that read inside of x: for each element along each axis of the kernel, and for each
// element of the kernel.
struct LaneMasks {
  std::array<std::vector<std::uint32_t>, 3> along;
  std::vector<std::uint32_t> of_kernel;
};

// Copies one vector of columns for all rows of k. A vector has a segment of each run that it touches; masks keep loads
// inside of x.
template <class T> class VectorOfColumns {
 public:
  static constexpr int lanes = 64 / sizeof(T);

  VectorOfColumns(const WindowCopy& copy, OutputWalk& at, std::int64_t count)
      : copy_(copy), stride_(at.axes[2].stride) {
    for (int lane = 0; lane < lanes; ++lane) outputs_[0][lane] = outputs_[1][lane] = outputs_[2][lane] = -1;
    for (std::int64_t lane = 0; lane < count;) {
      const std::int64_t n = std::min(at.run_length(), count - lane);
      segments_[segment_count_++] = {at.input() - lane * stride_, range_mask(lane, lane + n)};
      for (std::int64_t i = 0; i < n; ++i)
        for (std::size_t d = 0; d < 3; ++d)
          outputs_[d][lane + i] = static_cast<std::int32_t>(at.o[d] + (d == 2 ? i : 0));
      lane += n;
      at.advance(n);
    }
  }

  void fill_masks(const RowTable& rows, LaneMasks& masks) const {
    for (std::size_t d = 0; d < 3; ++d) fill_masks_along(d, masks.along[d]);
    masks.of_kernel.clear();
    for (const std::array<std::int64_t, 3>& at : rows.kernel)
      masks.of_kernel.push_back(masks.along[0][at[0]] & masks.along[1][at[1]] & masks.along[2][at[2]]);
  }

  // Copies rows of k. The first one is masked by the first element of the kernel.
  void copy_rows(std::span<const std::int64_t> first_inputs, const LaneMasks& masks, T* out) const {
    if (stride_ == 1)
      copy_rows_with<1>(first_inputs, masks.of_kernel, out);
    else if (stride_ == 2)
      copy_rows_with<2>(first_inputs, masks.of_kernel, out);
    else
      copy_rows_with<0>(first_inputs, masks.of_kernel, out);
  }

 private:
  struct Segment {
    std::int64_t input = 0;  // position of lane 0, before the kernel's offset
    std::uint32_t mask = 0;
  };

  // Copies rows one at a time or, as pairs, two at a time.
  template <int stride> void copy_rows_with(std::span<const std::int64_t> first_inputs,
                                            const std::vector<std::uint32_t>& masks, T* out) const {
    const T* const x = static_cast<const T*>(copy_.input);
    const std::uint32_t *const first_mask = masks.data(), *const last_mask = first_mask + masks.size();
    const std::uint32_t* mask = first_mask;
    const Segment* const segments = segments_.data();
    const Segment* const last_segment = segments + segment_count_;
    const std::int64_t row_stride = copy_.to.row_stride;
    const auto load_row = [&](std::int64_t first) {
      __m512i value = _mm512_setzero_si512();
      for (const Segment* s = segments; s != last_segment; ++s)
        value = load<stride>(value, *mask & s->mask, x + first + s->input);
      if (++mask == last_mask) mask = first_mask;
      return value;
    };
    if constexpr (sizeof(T) == 2)
      if (copy_.to.per_unit == 2) {
        const __m512i low = pair_indices(0), high = pair_indices(lanes / 2);
        for (std::size_t i = 0; i < first_inputs.size(); i += 2, out += row_stride) {
          const __m512i a = load_row(first_inputs[i]);
          const __m512i b = i + 1 < first_inputs.size() ? load_row(first_inputs[i + 1]) : _mm512_setzero_si512();
          _mm512_storeu_si512(out, _mm512_permutex2var_epi16(a, low, b));
          _mm512_storeu_si512(out + lanes, _mm512_permutex2var_epi16(a, high, b));
        }
        return;
      }
    for (const std::int64_t first : first_inputs) {
      _mm512_storeu_si512(out, load_row(first));
      out += row_stride;
    }
  }

  // Returns the indices of lanes first, first, first + 1, first + 1, … of two vectors alternately.
  static __m512i pair_indices(int first) {
    std::int16_t indices[32];
    for (int i = 0; i < 32; ++i) indices[i] = static_cast<std::int16_t>(first + i / 2 + i % 2 * 32);
    return _mm512_loadu_si512(indices);
  }

  static std::uint32_t range_mask(std::int64_t begin, std::int64_t end) {  // at most 32 lanes
    return static_cast<std::uint32_t>(((std::uint64_t{1} << end) - 1) & ~((std::uint64_t{1} << begin) - 1));
  }

  // Returns a mask whose bit 2*i is bit i.
  static std::uint64_t spread_bits(std::uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
    x = (x | x << 2) & 0x3333333333333333;
    return (x | x << 1) & 0x5555555555555555;
  }

  // Fills the masks of the elements along one axis of the kernel.
  void fill_masks_along(std::size_t axis, std::vector<std::uint32_t>& masks) const {
    const std::vector<KernelOffset>& offsets = copy_.operand.offsets[axis];
    masks.assign(offsets.size(), ~std::uint32_t{0});
    if (copy_.operand.windows->axes[axis].padding == 0) return;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      masks[i] = 0;
      const __m512i begin = _mm512_set1_epi32(static_cast<int>(offsets[i].begin)),
                    end = _mm512_set1_epi32(static_cast<int>(offsets[i].end));
      for (int part = 0; part < lanes / 16; ++part) {
        const __m512i o = _mm512_load_si512(&outputs_[axis][16 * part]);
        const __mmask16 inside = _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(o, begin), o, end);
        masks[i] |= std::uint32_t{inside} << (16 * part);
      }
    }
  }

  // Replaces the lanes of the mask by the elements at from[stride * lane].
  template <int stride> __m512i load(__m512i value, std::uint32_t mask, const T* from) const {
    if constexpr (stride == 1) return load_lanes(value, mask, from);
    if constexpr (stride == 2) return load_even(value, mask, from);
    if constexpr (sizeof(T) == 4) {
      const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i at = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(stride_)));
      return _mm512_mask_i32gather_epi32(value, static_cast<__mmask16>(mask), at, from, 4);
    }
    alignas(64) T all[lanes];
    _mm512_store_si512(all, value);
    for (; mask != 0; mask &= mask - 1) {
      const int lane = __builtin_ctz(mask);
      all[lane] = from[stride_ * lane];
    }
    return _mm512_load_si512(all);
  }
  static __m512i load_lanes(__m512i value, std::uint64_t mask, const T* from) {
    if constexpr (sizeof(T) == 4)
      return _mm512_mask_loadu_epi32(value, static_cast<__mmask16>(mask), from);
    else
      return _mm512_mask_loadu_epi16(value, static_cast<__mmask32>(mask), from);
  }
  static __m512i load_even(__m512i value, std::uint32_t mask, const T* from) {
    const std::uint64_t spread = spread_bits(mask);
    const __m512i zero = _mm512_setzero_si512(), low = load_lanes(zero, spread, from),
                  high = load_lanes(zero, spread >> lanes, from + lanes);
    if constexpr (sizeof(T) == 4)
      return _mm512_mask_mov_epi32(value, static_cast<__mmask16>(mask),
                                   _mm512_permutex2var_epi32(low, even_indices(), high));
    else
      return _mm512_mask_mov_epi16(value, static_cast<__mmask32>(mask),
                                   _mm512_permutex2var_epi16(low, even_indices(), high));
  }
  static __m512i even_indices() {
    constexpr bool is_word = sizeof(T) == 4;
    std::conditional_t<is_word, std::int32_t, std::int16_t> indices[lanes];
    for (int i = 0; i < lanes; ++i) indices[i] = static_cast<std::int16_t>(2 * i);
    return _mm512_loadu_si512(indices);
  }

  const WindowCopy& copy_;
  std::int64_t stride_;
  alignas(64) std::int32_t outputs_[3][lanes];
  std::array<Segment, lanes> segments_;
  int segment_count_ = 0;
};

// Copies some rows of k for several vectors before the next rows, so that the vectors find the rows' inputs in the L1.
template <class T> void copy_vectors(const WindowCopy& copy) {
  constexpr std::int64_t vectors_together = 4, min_rows = 32, lanes = VectorOfColumns<T>::lanes;
  thread_local RowTable rows;
  thread_local std::array<LaneMasks, vectors_together> masks;
  thread_local std::vector<VectorOfColumns<T>> vectors;
  rows.fill(copy);
  const auto elements = static_cast<std::int64_t>(rows.kernel.size());
  // An even multiple of the elements of the kernel, so that each part begins at the first mask and with a whole pair
  const std::int64_t rows_together = 2 * elements * ((min_rows + 2 * elements - 1) / (2 * elements));
  OutputWalk at(copy.operand.windows->axes, copy.columns.begin);
  for (std::int64_t column = 0; column < copy.columns.size; column += vectors_together * lanes) {
    vectors.clear();
    const std::int64_t end = std::min(column + vectors_together * lanes, copy.columns.size);
    for (std::int64_t c = column; c < end; c += lanes) {
      vectors.emplace_back(copy, at, std::min(lanes, end - c));
      vectors.back().fill_masks(rows, masks[vectors.size() - 1]);
    }
    for (std::int64_t k = 0; k < copy.k.size; k += rows_together) {
      const auto part =
          std::span<const std::int64_t>(rows.first_inputs).subspan(k, std::min(rows_together, copy.k.size - k));
      for (std::size_t v = 0; v < vectors.size(); ++v)
        vectors[v].copy_rows(part, masks[v],
                             panel_address<T>(copy, column + static_cast<std::int64_t>(v) * lanes) +
                                 k / copy.to.per_unit * copy.to.row_stride);
    }
  }
}
#endif

template <class T> void copy_elements(const WindowCopy& copy) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(T) > 1)
    if (copy.to.panel % VectorOfColumns<T>::lanes == 0) return copy_vectors<T>(copy);
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

}  // namespace ridge::ops::RIDGE_BODY_ISA
