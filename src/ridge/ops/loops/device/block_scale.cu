// Quantization and its inverse on a device. Each thread converts eight elements of one scale at a time, in chunks of
// 4096 elements for each thread block. Elements and scales have planes of their own (`BlockPlanes`). The eight 4-bit
// elements of a thread are in all four words where 32 elements are stored; four threads exchange them.
#include <cuda_fp8.h>

#include <span>
#include <string>

#include "ridge/base/block_scale.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, width = 8, chunk = 4096;

// Converts eight elements from `at` on to f32; `elements` is the number of the tensor's elements.
template <DType dtype> struct ElementReader {
  const std::uint8_t* from;
  std::int64_t at, elements;

  __device__ void read(float (&y)[width]) const {
    if constexpr (dtype_bits(dtype) == 8)
      read_bytes(y);
    else
      read_nibbles(y);
  }

 private:
  __device__ void read_bytes(float (&y)[width]) const {
    const uint2 codes = *reinterpret_cast<const uint2*>(from + at);
    const float scale = load_scale();
#pragma unroll
    for (int i = 0; i < width; i += 2) {
      const std::uint32_t pair = (i < 4 ? codes.x : codes.y) >> i % 4 * 8;
      float2 decoded;
      if constexpr (dtype == DType::int8)
        decoded = make_float2(static_cast<std::int8_t>(pair), static_cast<std::int8_t>(pair >> 8));
      else
        decoded =
            __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3)));
      y[i] = decoded.x * scale;
      y[i + 1] = decoded.y * scale;
    }
  }
  __device__ void read_nibbles(float (&y)[width]) const {
    const std::int64_t unit = at / nibble_unit * nibble_unit;
    const bool is_whole = unit + nibble_unit <= elements;
    std::uint32_t words[4];
    if (is_whole) {
      const uint4 all = *reinterpret_cast<const uint4*>(from + unit / 2);
      const int pair = static_cast<int>(at - unit) / width * 4;
      const std::uint32_t of_lane[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = of_lane[i] >> pair;
    } else {
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(from + at / 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = (word >> i * 8 & 0xf) | (word >> (i * 8 + 4) & 0xf) << 16;
    }
    const float scale = load_scale();
    int zero = 8;
    if constexpr (has_zero_points(dtype)) zero = from[scale_place() + 2] & max_zero_point;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const std::uint32_t code = words[i / 2] >> i % 2 * 16 & 0xf;
      if constexpr (has_zero_points(dtype))
        y[i] = static_cast<float>(static_cast<int>(code) - zero) * scale;
      else if constexpr (has_integer_blocks(dtype))
        y[i] = static_cast<float>(static_cast<int>(code ^ 8) - zero) * scale;
      else
        y[i] = decode_e2m1(code) * scale;
    }
  }
  __device__ std::int64_t scale_place() const { return BlockPlanes<dtype>::scale_offset(at, elements); }
  __device__ float load_scale() const {
    if constexpr (!is_block_scaled(dtype))
      return 1;
    else if constexpr (has_integer_blocks(dtype))
      return to_float(*reinterpret_cast<const F16*>(from + scale_place()));
    else if constexpr (dtype == DType::e4m3_128)
      return *reinterpret_cast<const float*>(from + scale_place());
    else
      return decode_scale<dtype>(from[scale_place()]);
  }
};

// `aligned` is the number of elements of the result that one store covers.
template <DType dtype, NumberFormat to, int aligned> __global__ void __launch_bounds__(threads)
    dequantize_kernel(const std::uint8_t* from, char* result, std::int64_t elements) {
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
#pragma unroll
  for (int element = static_cast<int>(threadIdx.x) * width; element < chunk; element += threads * width) {
    const std::int64_t at = first + element;
    if (at >= elements) break;
    float y[width];
    ElementReader<dtype>{from, at, elements}.read(y);
    tile::cuda::write<to, width, aligned, CachePolicy::cached>(result, at, y);
  }
}

struct QuantizeLaunch {
  DeviceLoopAxes lines;
  const char* values;
  std::uint8_t* result;
  std::int64_t extent, stride, elements;
  bool is_contiguous;  // True if element i of the result is value i
};

template <NumberFormat from, bool is_vector>
__device__ void load_values(const QuantizeLaunch& run, std::int64_t element, float (&x)[width]) {
  const bool exists = element < run.elements;
  std::int64_t first = exists ? element : 0;
  if (!run.is_contiguous) {
    const std::int64_t line = divide(first, run.extent);
    first = offsets_at(run.lines, line).values + (first - line * run.extent) * run.stride;
  }
  if constexpr (is_vector) {
    constexpr int aligned = 16 / tile::cuda::size_of<from>;
    const auto loaded = tile::cuda::read<from, width, aligned, CachePolicy::cached>(run.values, first, exists);
#pragma unroll
    for (int i = 0; i < width; ++i) x[i] = loaded[i];
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i) x[i] = tile::cuda::read_one<from>(run.values, first + i * run.stride, exists);
  }
}

// Returns the larger or smaller number, or NaN if one is NaN.
__device__ float max_or_nan(float x, float y) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(x), "f"(y));
  return out;
}
__device__ float min_or_nan(float x, float y) { return -max_or_nan(-x, -y); }

// The values of a block: the largest magnitude, and the smallest and largest value, 0 among them. NaN if one is NaN.
struct BlockRange {
  float magnitude = 0, low = 0, high = 0;
};
// Returns the range of the values of the lanes that share a scale.
template <DType dtype> __device__ BlockRange find_range(const float (&x)[width]) {
  BlockRange out;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    out.magnitude = max_or_nan(out.magnitude, fabsf(x[i]));
    out.low = min_or_nan(out.low, x[i]);
    out.high = max_or_nan(out.high, x[i]);
  }
#pragma unroll
  for (int other = BlockPlanes<dtype>::block / width / 2; other > 0; other /= 2) {
    out.magnitude = max_or_nan(out.magnitude, __shfl_xor_sync(~0u, out.magnitude, other));
    if constexpr (has_zero_points(dtype)) {
      out.low = min_or_nan(out.low, __shfl_xor_sync(~0u, out.low, other));
      out.high = max_or_nan(out.high, __shfl_xor_sync(~0u, out.high, other));
    }
  }
  return out;
}

// The scale of a block, 0 if all codes are 0, and its zero point.
struct StoredScale {
  float scale;
  float zero = 0;
};
// Stores the scale of a block at `to` if `stores`.
template <DType dtype> __device__ StoredScale store_scale(const BlockRange& range, bool stores, std::uint8_t* to) {
  const bool is_finite = range.magnitude < __uint_as_float(0x7f800000);
  if constexpr (has_integer_blocks(dtype)) {
    const F16 scale = integer_block_scale(has_zero_points(dtype), range.magnitude, range.high - range.low);
    StoredScale out{is_finite ? to_float(scale) : 0};
    if (has_zero_points(dtype) && out.scale > 0) out.zero = fminf(15, rintf(-range.low / out.scale));
    if (stores && has_zero_points(dtype))
      *reinterpret_cast<std::uint32_t*>(to) = scale.bits | static_cast<std::uint32_t>(out.zero) << 16;
    else if (stores)
      *reinterpret_cast<std::uint16_t*>(to) = scale.bits;
    return out;
  } else if constexpr (dtype == DType::e4m3_128) {
    const float scale = is_finite ? e4m3_128_scale(range.magnitude) : __uint_as_float(0x7fc00000);
    if (stores) *reinterpret_cast<float*>(to) = scale;
    return {is_finite ? scale : 0};
  } else {
    const std::uint8_t code = is_finite ? encode_scale<dtype>(range.magnitude) : nan_scale_code<dtype>;
    if (stores) *to = code;
    return {is_finite ? decode_scale<dtype>(code) : 0};
  }
}

// Returns the e4m3 codes of value(0) to value(7), limited to the largest finite code.
template <class Value> __device__ uint2 encode_e4m3(const Value& value) {
  std::uint32_t words[2];
#pragma unroll
  for (int word = 0; word < 2; ++word) {
    const auto pair = [&](int i) {
      return std::uint32_t{__nv_cvt_float2_to_fp8x2(make_float2(value(i), value(i + 1)), __NV_SATFINITE, __NV_E4M3)};
    };
    words[word] = pair(word * 4) | pair(word * 4 + 2) << 16;
  }
  return make_uint2(words[0], words[1]);
}
// Returns the codes of quotients by a scale of e4m3_128. A quotient lies between the products with two numbers next to
// the inverse of the scale, which differ from it by more than all rounding errors together, 3 * 2^-24. Unless both have
// the same code, it is rounded to odd.
__device__ uint2 encode_quotients(const float (&x)[width], float scale) {
  const float inverse = __frcp_rn(scale), lower = inverse * (1 - 0x1p-22f), upper = inverse * (1 + 0x1p-22f);
  const bool is_small_or_large = !(scale > 0x1p-60f && scale < 0x1p60f);
  if (is_small_or_large) return encode_e4m3([&](int i) { return divide_by_scale<DType::e4m3_128>(x[i], scale); });
  const uint2 codes = encode_e4m3([&](int i) { return x[i] * lower; }),
              others = encode_e4m3([&](int i) { return x[i] * upper; });
  if (codes.x == others.x && codes.y == others.y) return codes;
  return encode_e4m3([&](int i) { return divide_to_odd(x[i], scale, inverse); });
}

// Returns the code of a 4-bit element.
template <DType dtype> __device__ std::uint32_t encode_nibble(float x, const StoredScale& scale) {
  if (scale.scale == 0) return 0;
  if constexpr (has_integer_blocks(dtype)) {
    constexpr float least = has_zero_points(dtype) ? 0 : -8;
    const float code = fminf(fmaxf(rintf(x / scale.scale) + scale.zero, least), least + 15);
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(code)) & 0xf;
  } else {
    return encode<e2m1_codes>(divide_by_scale<dtype>(x, scale.scale));
  }
}
// Stores the codes of eight elements from `at` on. All threads of a warp take part; `exists` is false beyond the last.
template <DType dtype> __device__ void store_codes(const float (&x)[width], const StoredScale& scale, std::uint8_t* to,
                                                   std::int64_t at, std::int64_t elements) {
  const bool exists = at < elements;
  if constexpr (dtype_bits(dtype) == 8) {
    uint2 codes = make_uint2(0, 0);
    if constexpr (dtype == DType::e4m3_128) {
      if (exists && scale.scale != 0) codes = encode_quotients(x, scale.scale);
    } else if (scale.scale != 0) {
      codes = encode_e4m3([&](int i) { return divide_by_scale<dtype>(x[i], scale.scale); });
    }
    if (exists) *reinterpret_cast<uint2*>(to + at) = codes;
  } else {
    const int pair = static_cast<int>(at % nibble_unit) / width;
    std::uint32_t words[4], in_order = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t first = encode_nibble<dtype>(x[2 * i], scale),
                          second = encode_nibble<dtype>(x[2 * i + 1], scale);
      in_order |= (first | second << 4) << i * 8;
      words[i] = (first | second << 16) << pair * 4;
#pragma unroll
      for (int other = 1; other < 4; other *= 2) words[i] |= __shfl_xor_sync(~0u, words[i], other);
    }
    const bool is_whole = at / nibble_unit * nibble_unit + nibble_unit <= elements;
    std::uint32_t word = in_order;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (is_whole && i == pair) word = words[i];
    if (exists) *reinterpret_cast<std::uint32_t*>(to + at / 2) = word;
  }
}

template <DType dtype, NumberFormat from, bool is_vector> __global__ void __launch_bounds__(threads)
    quantize_kernel(const QuantizeLaunch run) {
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
  constexpr int rounds = chunk / (threads * width);
  float x[rounds][width];
#pragma unroll
  for (int r = 0; r < rounds; ++r)
    load_values<from, is_vector>(run, first + (r * threads + static_cast<int>(threadIdx.x)) * width, x[r]);
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const std::int64_t at = first + (r * threads + static_cast<int>(threadIdx.x)) * width;
    const BlockRange range = find_range<dtype>(x[r]);
    const StoredScale scale = store_scale<dtype>(range, at < run.elements && at % BlockPlanes<dtype>::block == 0,
                                                 run.result + BlockPlanes<dtype>::scale_offset(at, run.elements));
    store_codes<dtype>(x[r], scale, run.result, at, run.elements);
  }
}

// Calls f.operator()<dtype>() with a block-scaled dtype.
template <class F> void with_format_of_blocks(DType dtype, const F& f) {
  switch (dtype) {
    case DType::mxfp8: return f.template operator()<DType::mxfp8>();
    case DType::mxfp4: return f.template operator()<DType::mxfp4>();
    case DType::nvfp4: return f.template operator()<DType::nvfp4>();
    case DType::int4_32: return f.template operator()<DType::int4_32>();
    case DType::int4_64: return f.template operator()<DType::int4_64>();
    case DType::int4_128: return f.template operator()<DType::int4_128>();
    case DType::u4_32: return f.template operator()<DType::u4_32>();
    case DType::u4_64: return f.template operator()<DType::u4_64>();
    case DType::u4_128: return f.template operator()<DType::u4_128>();
    default: return f.template operator()<DType::e4m3_128>();
  }
}

// The same for a dtype that is converted, which may also be int8 or e4m3.
template <class F> void with_narrow_format(DType dtype, const F& f) {
  if (dtype == DType::int8) return f.template operator()<DType::int8>();
  if (dtype == DType::e4m3) return f.template operator()<DType::e4m3>();
  with_format_of_blocks(dtype, f);
}

Status check_alignment(DType dtype, const void* blocks) {
  if (!is_block_scaled(dtype) || reinterpret_cast<std::uintptr_t>(blocks) % 16 == 0) return Done{};
  return input_error(
      "expected the address of " + std::string(dtype_name(dtype)) + " on a device to be a multiple of 16 bytes",
      "allocate it as a tensor of its own");
}

}  // namespace

Status run_loops(const DequantizeLoops& l, std::span<void* const> data, CUstream_st* stream) {
  if (l.elements == 0) return Done{};
  const auto* const from = static_cast<const std::uint8_t*>(data[0]);
  auto* const to = static_cast<char*>(data[1]);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  RIDGE_TRY_STATUS(check_alignment(l.values, from));
  with_narrow_format(l.values, [&]<DType dtype>() {
    with_format(l.result, [&]<NumberFormat format>() {
      (is_aligned ? dequantize_kernel<dtype, format, 16 / tile::cuda::size_of<format>>
                  : dequantize_kernel<dtype, format, 1>)<<<blocks_for(l.elements, chunk), threads, 0, stream>>>(
          from, to, l.elements);
    });
  });
  return device::to_status(cudaGetLastError(), "launching a dequantization");
}

Status run_loops(const QuantizeLoops& l, std::span<void* const> data, CUstream_st* stream) {
  const std::vector<LoopAxis> axes = merge_loop_axes(l.axes);
  const bool has_one_line = axes.empty() || (axes.size() == 1 && axes[0].values == l.axis.extent);
  const QuantizeLaunch run{.lines = make_device_axes(axes),
                           .values = static_cast<const char*>(data[0]),
                           .result = static_cast<std::uint8_t*>(data[1]),
                           .extent = l.axis.extent,
                           .stride = l.axis.values,
                           .elements = count_points(axes) * l.axis.extent,
                           .is_contiguous = has_one_line && l.axis.values == 1};
  if (run.elements == 0) return Done{};
  const std::int64_t bytes = dtype_bits(l.values) / 8;
  std::vector<std::int64_t> distances;
  for (const LoopAxis& axis : axes) distances.push_back(axis.values * bytes);
  const bool is_vector = l.axis.values == 1 && widest_word({run.values}, distances) == 16;
  RIDGE_TRY_STATUS(check_alignment(l.result, run.result));
  with_format_of_blocks(l.result, [&]<DType dtype>() {
    with_format(l.values, [&]<NumberFormat format>() {
      (is_vector ? quantize_kernel<dtype, format, true>
                 : quantize_kernel<dtype, format, false>)<<<blocks_for(run.elements, chunk), threads, 0, stream>>>(run);
    });
  });
  return device::to_status(cudaGetLastError(), "launching a quantization");
}

}  // namespace ridge::ops::cuda
