// Makes the windows of a convolution with AVX-512. The elements of x that some columns read are copied to planes that
// include the zeros of the padding. Along an axis, element i of the kernel reads plane (i * dilation) % stride at shift
// i * dilation / stride, so that adjacent outputs read adjacent elements for any stride. For example, 7x7 windows with
// stride 2 read 2 x 2 planes for each channel. If each element along the last axis has a plane of its own, all columns
// of a row of k are adjacent, and a product reads them without packing. Included by copy_body.cc.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "ridge/ops/product/windows/walks.h"

namespace ridge::ops {
namespace {

// Planes along one axis. Output o of the box and element i of the kernel are at `positions[i]` + o - `first_output`.
struct PlaneAxis {
  std::int64_t first_output = 0, outputs = 0;  // the box of outputs
  std::int64_t planes = 0, size = 0;           // number of planes and elements of each
  bool has_plane_per_element = false;          // false: a plane for each remainder of a division by the stride
  std::vector<std::int64_t> positions;         // by element of the kernel
  std::vector<std::int64_t> first_inputs;      // inputs of the planes' first elements, by plane

  // If `separates_elements`, each element of the kernel has a plane of its own, which has only the box of outputs.
  void set_box(const WindowAxis& axis, std::int64_t first, std::int64_t count, bool separates_elements) {
    first_output = first;
    outputs = count;
    const std::int64_t reach = (axis.kernel - 1) * axis.dilation, shifted = count + reach / axis.stride,
                       phases = std::min(axis.stride, reach + 1);
    has_plane_per_element = separates_elements || axis.kernel * count < phases * shifted;
    planes = has_plane_per_element ? axis.kernel : phases;
    size = has_plane_per_element ? count : shifted;
    first_inputs.clear();
    for (std::int64_t p = 0; p < planes; ++p)
      first_inputs.push_back(first * axis.stride - axis.padding + (has_plane_per_element ? p * axis.dilation : p));
    shifts_.clear();
    planes_of_elements_.clear();
    for (std::int64_t i = 0; i < axis.kernel; ++i) {
      const std::int64_t at = i * axis.dilation;
      planes_of_elements_.push_back(has_plane_per_element ? i : at % axis.stride);
      shifts_.push_back(has_plane_per_element ? 0 : at / axis.stride);
    }
  }
  void set_positions(std::int64_t plane_stride, std::int64_t stride) {
    positions.clear();
    for (std::size_t i = 0; i < shifts_.size(); ++i)
      positions.push_back(planes_of_elements_[i] * plane_stride + shifts_[i] * stride);
  }

 private:
  std::vector<std::int64_t> planes_of_elements_, shifts_;
};

// Makes planes with elements T of an input with elements Source. If T has two of them, it is an element of each of two
// channels, as the rows of k are ordered for bf16 (WindowOperand::pairs_channels).
template <class T, class Source = T> class PlaneCopy {
 public:
  static constexpr std::int64_t lanes = 64 / sizeof(T), per_element = sizeof(T) / sizeof(Source);
  static constexpr bool has_pairs = per_element == 2;

  // Copies some columns for all rows of k, a few channels at a time.

  void copy_columns(const WindowCopy& copy) {
    copy_ = &copy;
    axes_ = &copy.operand.windows->axes;
    set_axes(false);
    list_vectors();
    list_lines();
    const std::int64_t kernel = (*axes_)[0].kernel * (*axes_)[1].kernel * (*axes_)[2].kernel;
    const std::int64_t first_channel = copy.k.begin / kernel / channel_multiple() * channel_multiple();
    const std::int64_t last_channel = (copy.k.end() - 1) / kernel + 1;
    const std::int64_t together = choose_channel_count(last_channel - first_channel);
    list_rows(together, copy.operand.pairs_channels);
    for (std::int64_t channel = first_channel; channel < last_channel; channel += together) {
      const std::int64_t begin = std::max(channel * kernel, copy.k.begin),
                         end = std::min((channel + together) * kernel, copy.k.end());
      const std::int64_t pair = copy.operand.pairs_channels ? 2 : 1;  // channels whose rows of k alternate
      for (std::int64_t c = begin / kernel / pair * pair; c < (end - 1) / kernel / pair * pair + pair; ++c)
        fill_planes(c, (c - channel) * channel_elements_);
      copy_rows(begin - channel * kernel, end - channel * kernel, begin - copy.k.begin);
    }
  }

  // Makes planes in which the columns of each row of k are adjacent, and returns the rows. Returns null addresses if
  // the planes would have more elements than the rows or if the columns are of several outputs along the first axis.
  tile::PlacedRows place_columns(const WindowCopy& copy) {
    copy_ = &copy;
    axes_ = &copy.operand.windows->axes;
    set_axes(true);
    const std::int64_t kernel = (*axes_)[0].kernel * (*axes_)[1].kernel * (*axes_)[2].kernel;
    const std::int64_t first = find_output(OutputWalk(*axes_, copy.columns.begin).o),
                       last = find_output(OutputWalk(*axes_, copy.columns.end() - 1).o);
    if (last - first != copy.columns.size - 1 || channel_elements_ > kernel * copy.columns.size) return {};
    list_lines();
    const std::int64_t begin = copy.k.begin / per_element, channel = begin / kernel,
                       end = (copy.k.end() / per_element - 1) / kernel + 1;
    list_rows(end - channel, false);
    for (std::int64_t c = channel; c < end; ++c) fill_planes(c, (c - channel) * channel_elements_);
    return {data_ + first, rows_.data() + (begin - channel * kernel)};
  }

 private:
  struct Segment {              // lanes of a vector that are adjacent in memory
    std::int64_t position = 0;  // position of lane 0, from the beginning of the planes or of a line of x
    std::uint32_t mask = 0;
  };
  static constexpr std::int64_t outside = -1;  // a line of the padding
  struct ColumnVector {
    std::size_t first_segment = 0, segments = 0;
  };
  using Mask = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask32>;

  // Returns the number whose multiples of channels are copied together, so that no pair of rows of k is divided.
  std::int64_t channel_multiple() const { return copy_->to.per_unit; }

  // Returns how many channels are copied together: their planes take at most a third of the L1.
  std::int64_t choose_channel_count(std::int64_t channels) const {
    constexpr std::int64_t max_bytes = 12 << 10;
    const std::int64_t fit = max_bytes / (channel_elements_ * static_cast<std::int64_t>(sizeof(T))),
                       multiple = channel_multiple();
    return std::max(std::min(fit, channels) / multiple * multiple, multiple);
  }

  // Chooses the planes. The box has all outputs along an axis if the columns have several along an axis before it.
  void set_axes(bool is_read_in_place) {
    const std::int64_t first = copy_->columns.begin, last = copy_->columns.end() - 1;
    std::int64_t inner = (*axes_)[1].out * (*axes_)[2].out;
    bool has_several = false;
    for (std::size_t d = 0; d < 3; ++d) {
      const WindowAxis& axis = (*axes_)[d];
      const std::int64_t begin = has_several ? 0 : first / inner % axis.out,
                         end = has_several ? axis.out : last / inner % axis.out + 1;
      planes_[d].set_box(axis, begin, end - begin, d == 2 && has_several && (is_read_in_place || axis.out < lanes / 2));
      has_several = has_several || end - begin > 1;
      if (d < 2) inner /= (*axes_)[d + 1].out;
    }
    const PlaneAxis& line = planes_[2];
    // Lines of narrow outputs are contiguous, so that a vector loads several; others begin at a whole vector.
    is_contiguous_ = is_read_in_place || (line.size == line.outputs && line.outputs < lanes / 2);
    line_stride_ = is_contiguous_ ? line.size : (line.size + lanes - 1) / lanes * lanes;
    const std::int64_t rows = planes_[1].planes * planes_[1].size;
    plane_elements_ = planes_[0].planes * planes_[0].size * rows * line_stride_ + (is_contiguous_ ? lanes : 0);
    planes_[2].set_positions(plane_elements_, 1);
    planes_[1].set_positions(planes_[1].size * line_stride_, line_stride_);
    planes_[0].set_positions(planes_[0].size * rows * line_stride_, rows * line_stride_);
    // An odd number of cache lines, so that channels are in different sets of the L1.
    channel_elements_ = ((planes_[2].planes * plane_elements_ + lanes - 1) / lanes | 1) * lanes;
  }

  // Lists the segments of the vectors of columns: lanes whose elements are adjacent in a plane.
  void list_vectors() {
    vectors_.clear();
    segments_.clear();
    OutputWalk at(*axes_, copy_->columns.begin);
    for (std::int64_t column = 0; column < copy_->columns.size; column += lanes) {
      const std::int64_t count = std::min(lanes, copy_->columns.size - column);
      const std::size_t first = segments_.size();
      for (std::int64_t lane = 0; lane < count;) {
        const std::int64_t n = std::min(at.run_length(), count - lane), position = find_output(at.o) - lane;
        const auto mask = static_cast<std::uint32_t>(((std::uint64_t{1} << n) - 1) << lane);
        if (segments_.size() > first && segments_.back().position == position)
          segments_.back().mask |= mask;
        else
          segments_.push_back({position, mask});
        lane += n;
        at.advance(n);
      }
      vectors_.push_back({first, segments_.size() - first});
    }
  }
  std::int64_t find_output(const std::array<std::int64_t, 3>& o) const {
    const std::int64_t rows = planes_[1].planes * planes_[1].size;
    return ((o[0] - planes_[0].first_output) * rows + o[1] - planes_[1].first_output) * line_stride_ + o[2] -
           planes_[2].first_output;
  }

  // Lists the positions in the planes of the rows of k, from the first element of the kernel of a channel on.
  // If the rows of k have pairs of channels, the rows of two channels alternate.
  void list_rows(std::int64_t channels, bool pairs_channels) {
    rows_.clear();
    const std::int64_t together = pairs_channels ? 2 : 1;
    for (std::int64_t c = 0; c < channels; c += together)
      for (const std::int64_t a : planes_[0].positions)
        for (const std::int64_t b : planes_[1].positions)
          for (const std::int64_t i : planes_[2].positions)
            for (std::int64_t p = 0; p < together; ++p) rows_.push_back((c + p) * channel_elements_ + a + b + i);
    // Vectors may load and store up to a vector outside of the planes.
    memory_.resize(static_cast<std::size_t>(channels * channel_elements_ + 3 * lanes));
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data() + lanes);
    data_ = reinterpret_cast<T*>((address + 63) / 64 * 64);
  }

  // Lists the lines of x that a plane has, and the parts of a line that a vector of a plane has.
  void list_lines() {
    const std::array<WindowAxis, 3>& axes = *axes_;
    lines_.clear();
    for (const std::int64_t first_0 : planes_[0].first_inputs)
      for (std::int64_t i = 0; i < planes_[0].size; ++i)
        for (const std::int64_t first_1 : planes_[1].first_inputs)
          for (std::int64_t j = 0; j < planes_[1].size; ++j) {
            const std::int64_t at_0 = first_0 + i * axes[0].stride, at_1 = first_1 + j * axes[1].stride;
            const bool is_inside = at_0 >= 0 && at_0 < axes[0].in && at_1 >= 0 && at_1 < axes[1].in;
            lines_.push_back(is_inside ? (at_0 * axes[1].in + at_1) * axes[2].in : outside);
          }
    const std::int64_t stride = axes[2].stride;
    has_all_phases_ = !planes_[2].has_plane_per_element && planes_[2].planes == stride &&
                      (stride == 2 || (stride == 4 && !has_pairs));
    channel_size_ = axes[0].in * axes[1].in * axes[2].in;
    parts_.clear();
    for (const std::int64_t first : planes_[2].first_inputs)
      for (std::int64_t j = 0; j < line_stride_; j += lanes)
        for (std::int64_t i = 0; i < stride && stride <= 4; ++i) {
          const std::int64_t at = first + j * stride + i * lanes;
          const std::int64_t begin = std::clamp<std::int64_t>(-at, 0, lanes),
                             end = std::clamp<std::int64_t>(axes[2].in - at, begin, lanes);
          parts_.push_back({at, static_cast<std::uint32_t>((std::uint64_t{1} << end) - (std::uint64_t{1} << begin))});
        }
  }

  // Copies the elements of a channel to its planes. The last store of a line may overlap the next line, which is
  // written later.
  void fill_planes(std::int64_t channel, std::int64_t position) const {
    const WindowAxis& axis = (*axes_)[2];
    const Source* const x = static_cast<const Source*>(copy_->input) + channel * per_element * channel_size_;
    T* out = data_ + position;
    const std::int64_t planes = planes_[2].planes, parts_of_plane = (line_stride_ + lanes - 1) / lanes * axis.stride;
    // Planes p and p + 1 are the even and the odd elements of the same part of a line.
    const bool has_neighbors = axis.stride == 2 && (has_all_phases_ || axis.dilation == 1);
    for (std::int64_t p = 0, together = 1; p < planes; p += together, out += together * plane_elements_) {
      const Segment* const parts = parts_.empty() ? nullptr : parts_.data() + p * parts_of_plane;
      together = 1;
      if (has_all_phases_ && axis.stride == 4) {
        together = 4;
        fill_four_planes(x, parts, out);
      } else if (has_neighbors && p + 1 < planes) {
        together = 2;
        fill_two_planes(x, parts, out);
      } else if (axis.stride > 2) {
        fill_plane_by_elements(x, planes_[2].first_inputs[p], out);
      } else if (line_stride_ > lanes) {
        axis.stride == 1 ? fill_long_lines<1>(x, parts, out) : fill_long_lines<2>(x, parts, out);
      } else {
        axis.stride == 1 ? fill_short_lines<1>(x, parts, out) : fill_short_lines<2>(x, parts, out);
      }
    }
  }
  // Calls fill(line, to) for each line of a plane that x has, and clears the others.
  template <class Fill> void fill_each_line(const Source* x, T* out, std::int64_t planes, const Fill& fill) const {
    const std::int64_t stride = line_stride_, plane_elements = plane_elements_;
    const std::int64_t* const last = lines_.data() + lines_.size();
    for (const std::int64_t* line = lines_.data(); line != last; ++line, out += stride) {
      if (*line != outside) {
        fill(x + *line, out);
        continue;
      }
      T* to = out;
      for (std::int64_t p = 0; p < planes; ++p, to += plane_elements)
        for (std::int64_t j = 0; j < stride; j += lanes) _mm512_storeu_si512(to + j, _mm512_setzero_si512());
    }
  }
  template <int stride> void fill_long_lines(const Source* x, const Segment* parts, T* out) const {
    const std::int64_t size = line_stride_;
    fill_each_line(
        x, out, 1, [&](const Source* line, T* to) __attribute__((always_inline)) {
          const Segment* part = parts;
          for (std::int64_t j = 0; j < size; j += lanes, part += stride) {
            _mm512_storeu_si512(to + j,
                                stride == 1 ? load_adjacent(line, part[0]) : load_both(line, part[0], part[1]).even);
          }
        });
  }
  // Copies lines of at most one vector. Shorter stores cross fewer lines of the cache.
  template <int stride> void fill_short_lines(const Source* x, const Segment* parts, T* out) const {
    const Segment first = parts[0], second = parts[stride - 1];
    const auto fill = [&](const auto& store) __attribute__((always_inline)) {
      fill_each_line(
          x, out, 1, [&](const Source* line, T* to) __attribute__((always_inline)) {
            store(to, stride == 1 ? load_adjacent(line, first) : load_both(line, first, second).even);
          });
    };
    const std::size_t bytes = static_cast<std::size_t>(line_stride_) * sizeof(T);
    if (bytes <= 16)
      fill([](T* to, __m512i value) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(value));
      });
    else if (bytes <= 32)
      fill([](T* to, __m512i value) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(value));
      });
    else
      fill([](T* to, __m512i value) { _mm512_storeu_si512(to, value); });
  }
  void fill_plane_by_elements(const Source* x, std::int64_t first, T* out) const {
    const std::int64_t stride = (*axes_)[2].stride, in = (*axes_)[2].in;
    fill_each_line(x, out, 1, [&](const Source* line, T* to) {
      for (std::int64_t j = 0, at = first; j < planes_[2].size; ++j, at += stride) {
        Source all[per_element] = {};
        if (at >= 0 && at < in)
          for (std::int64_t c = 0; c < per_element; ++c) all[c] = line[at + c * channel_size_];
        std::memcpy(to + j, all, sizeof(T));
      }
    });
  }
  // Writes two planes of which one has the even and one the odd elements of a part of x.
  void fill_two_planes(const Source* x, const Segment* parts, T* out) const {
    const std::int64_t size = line_stride_, next = plane_elements_;
    fill_each_line(
        x, out, 2, [&](const Source* line, T* to) __attribute__((always_inline)) {
          const Segment* part = parts;
          for (std::int64_t j = 0; j < size; j += lanes, part += 2) {
            const Phases both = load_both(line, part[0], part[1]);
            _mm512_storeu_si512(to + j, both.even);
            _mm512_storeu_si512(to + next + j, both.odd);
          }
        });
  }
  void fill_four_planes(const Source* x, const Segment* parts, T* out) const {
    const std::int64_t size = line_stride_, next = plane_elements_;
    fill_each_line(
        x, out, 4, [&](const Source* line, T* to) __attribute__((always_inline)) {
          const Segment* part = parts;
          for (std::int64_t j = 0; j < size; j += lanes, part += 4) {
            const Phases low = load_both(line, part[0], part[1]), high = load_both(line, part[2], part[3]);
            T* const at = to + j;
            _mm512_storeu_si512(at, select_elements<0>(low.even, high.even));
            _mm512_storeu_si512(at + next, select_elements<0>(low.odd, high.odd));
            _mm512_storeu_si512(at + 2 * next, select_elements<1>(low.even, high.even));
            _mm512_storeu_si512(at + 3 * next, select_elements<1>(low.odd, high.odd));
          }
        });
  }
  // Loads adjacent elements of a line, of one channel or of two.
  __m512i load_adjacent(const Source* line, const Segment& part) const {
    const Source* const from = line + part.position;
    if constexpr (has_pairs) {
      const auto mask = static_cast<__mmask16>(part.mask);
      const __m512i first = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)),
                    second = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + channel_size_));
      return _mm512_or_si512(first, _mm512_slli_epi32(second, 16));
    } else {
      return load_lanes(_mm512_setzero_si512(), static_cast<Mask>(part.mask), from);
    }
  }

  // Loads the even and the odd elements of two adjacent parts of a line.
  struct Phases {
    __m512i even, odd;
  };
  Phases load_both(const Source* line, const Segment& low, const Segment& high) const {
    if constexpr (has_pairs) {
      const Source* const from = line + low.position;
      const __mmask32 mask = low.mask | high.mask << lanes, upper = 0xaaaaaaaa;
      const __m512i first = _mm512_maskz_loadu_epi16(mask, from),
                    second = _mm512_maskz_loadu_epi16(mask, from + channel_size_);
      return {_mm512_mask_blend_epi16(upper, first, _mm512_slli_epi32(second, 16)),
              _mm512_mask_blend_epi16(upper, _mm512_srli_epi32(first, 16), second)};
    } else {
      const __m512i first = load_adjacent(line, low), second = load_adjacent(line, high);
      return {select_elements<0>(first, second), select_elements<1>(first, second)};
    }
  }
  static __m512i load_lanes(__m512i value, Mask mask, const T* from) {
    if constexpr (sizeof(T) == 4)
      return _mm512_mask_loadu_epi32(value, mask, from);
    else
      return _mm512_mask_loadu_epi16(value, mask, from);
  }

  // Returns the elements `first`, `first` + 2, … of two vectors.
  template <int first> static __m512i select_elements(__m512i a, __m512i b) {
    constexpr bool is_word = sizeof(T) == 4;
    std::conditional_t<is_word, std::int32_t, std::int16_t> indices[lanes];
    for (int i = 0; i < lanes; ++i) indices[i] = static_cast<std::int16_t>(2 * i + first);
    return permute(a, _mm512_loadu_si512(indices), b);
  }
  static __m512i permute(__m512i a, __m512i indices, __m512i b) {
    if constexpr (sizeof(T) == 4)
      return _mm512_permutex2var_epi32(a, indices, b);
    else
      return _mm512_permutex2var_epi16(a, indices, b);
  }

  // Copies rows begin … end - 1 of the channels in the planes to row `to` of all panels.
  void copy_rows(std::int64_t begin, std::int64_t end, std::int64_t to) const {
    const std::int64_t* const rows = rows_.data() + begin;
    for (std::size_t v = 0; v < vectors_.size(); ++v) {
      T* const out = panel_address<T>(*copy_, static_cast<std::int64_t>(v) * lanes) +
                     to / copy_->to.per_unit * copy_->to.row_stride;
      switch (vectors_[v].segments) {
        case 1: copy_vector<1>(vectors_[v], rows, end - begin, out); break;
        case 2: copy_vector<2>(vectors_[v], rows, end - begin, out); break;
        case 3: copy_vector<3>(vectors_[v], rows, end - begin, out); break;
        default: copy_vector<0>(vectors_[v], rows, end - begin, out); break;
      }
    }
  }

  // Copies a vector of `count` segments (0: any number) for n rows, one at a time or, as pairs, two at a time.
  template <int count>
  void copy_vector(const ColumnVector& vector, const std::int64_t* rows, std::int64_t n, T* out) const {
    const Segment* const all = segments_.data() + vector.first_segment;
    Segment segments[count == 0 ? 1 : count];
    std::copy(all, all + (count == 0 ? 1 : count), segments);
    const T* const data = data_;
    const std::int64_t row_stride = copy_->to.row_stride;
    const auto load_row = [&](std::int64_t position) __attribute__((always_inline)) {
      const T* const from = data + position;
      __m512i value =
          load_lanes(_mm512_setzero_si512(), static_cast<Mask>(segments[0].mask), from + segments[0].position);
      if constexpr (count == 0) {
        for (std::size_t i = 1; i < vector.segments; ++i)
          value = load_lanes(value, static_cast<Mask>(all[i].mask), from + all[i].position);
      } else {
#pragma GCC unroll 3
        for (int i = 1; i < count; ++i)
          value = load_lanes(value, static_cast<Mask>(segments[i].mask), from + segments[i].position);
      }
      return value;
    };
    if constexpr (sizeof(T) == 2)
      if (copy_->to.per_unit == 2) {
        const __m512i low = pair_indices(0), high = pair_indices(lanes / 2);
        for (std::int64_t i = 0; i < n; i += 2, out += row_stride) {
          const __m512i a = load_row(rows[i]), b = i + 1 < n ? load_row(rows[i + 1]) : _mm512_setzero_si512();
          _mm512_storeu_si512(out, permute(a, low, b));
          _mm512_storeu_si512(out + lanes, permute(a, high, b));
        }
        return;
      }
    for (std::int64_t i = 0; i < n; ++i, out += row_stride) _mm512_storeu_si512(out, load_row(rows[i]));
  }

  // Returns the indices of lanes first, first, first + 1, first + 1, … of two vectors alternately.
  static __m512i pair_indices(int first) {
    std::int16_t indices[32];
    for (int i = 0; i < 32; ++i) indices[i] = static_cast<std::int16_t>(first + i / 2 + i % 2 * 32);
    return _mm512_loadu_si512(indices);
  }

  const WindowCopy* copy_ = nullptr;
  const std::array<WindowAxis, 3>* axes_ = nullptr;
  std::array<PlaneAxis, 3> planes_;
  bool is_contiguous_ = false;         // true if the lines of a plane are adjacent
  std::int64_t line_stride_ = 0;       // elements from a line of a plane to the next one
  std::int64_t plane_elements_ = 0;    // elements of a plane of the last axis
  std::int64_t channel_elements_ = 0;  // elements of all planes of a channel, or of two
  std::int64_t channel_size_ = 0;      // elements of a channel of x
  std::vector<Segment> segments_;
  std::vector<ColumnVector> vectors_;
  std::vector<std::int64_t> rows_, lines_;  // positions of rows of k in the planes, and of lines in a channel of x
  std::vector<Segment> parts_;
  bool has_all_phases_ = false;  // true if the planes together have all elements of a line
  std::vector<T> memory_;
  T* data_ = nullptr;
};

}  // namespace
}  // namespace ridge::ops
