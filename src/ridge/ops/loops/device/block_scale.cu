// Quantization and its inverse on a device. Each thread converts eight elements of one scale at a time, in chunks of
// 4096 elements for each thread block. e4m3_128 has aligned elements and scales (`BlockPlanes`). Blocks of 17 or 33
// bytes have no alignment that vectors of 16 bytes could use, so that their chunks, which begin at multiples of 16
// bytes, move through shared memory.
#include <cuda_fp8.h>

#include <span>

#include "ridge/base/block_scale.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, width = 8, chunk = 4096;

template <DType type> struct BlockLayout {
  static constexpr DType dtype = type;
  static constexpr DTypeInfo info = dtype_info(dtype);
  // Elements without scales count as blocks of any size.
  static constexpr int block = is_block_scaled(dtype) ? info.block : 32, scale_bytes = info.scale_bits / 8,
                       bytes = scale_bytes + block * info.bits / 8;
  static constexpr int chunk_bytes = chunk / block * bytes;
  static_assert(chunk_bytes % 16 == 0);
  // Returns the offset of the codes of eight elements of a chunk, and that of their scale.
  __device__ static int code_offset(int element) {
    return element / block * bytes + scale_bytes + element % block * info.bits / 8;
  }
  __device__ static int scale_offset(int element) { return element / block * bytes; }
};

// Copies a chunk between memory and shared memory.
__device__ void copy_bytes(std::uint8_t* to, const std::uint8_t* from, int bytes) {
  const bool is_aligned = ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 15) == 0;
  const int words = is_aligned ? bytes / 16 : 0;
  for (int i = static_cast<int>(threadIdx.x); i < words; i += threads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (int i = words * 16 + static_cast<int>(threadIdx.x); i < bytes; i += threads) to[i] = from[i];
}
template <class Layout> __device__ int bytes_of_chunk(std::int64_t first, std::int64_t elements) {
  const std::int64_t rest = elements - first;
  return rest >= chunk ? Layout::chunk_bytes : static_cast<int>(rest) / Layout::block * Layout::bytes;
}

template <DType dtype> __device__ float load_scale(const std::uint8_t* block) {
  if constexpr (is_block_scaled(dtype)) return decode_scale<dtype>(*block);
  return 1;
}
template <DType dtype> __device__ float decode_element(const std::uint8_t* codes, int i) {
  if constexpr (dtype == DType::int8)
    return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  else if constexpr (dtype_bits(dtype) == 8)
    return decode_e4m3(codes[i]);
  else
    return decode_e2m1(codes[i / 2] >> i % 2 * 4);
}

// `aligned` is the number of elements of the result that one store covers.
template <class Layout, NumberFormat to, int aligned> __global__ void __launch_bounds__(threads)
    dequantize_kernel(const std::uint8_t* from, char* result, std::int64_t elements) {
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
  if constexpr (has_planes_on_devices(Layout::dtype)) {
#pragma unroll
    for (int element = static_cast<int>(threadIdx.x) * width; element < chunk; element += threads * width) {
      const std::int64_t at = first + element;
      if (at >= elements) break;
      const float scale = *reinterpret_cast<const float*>(from + BlockPlanes::scale_offset(at, elements));
      const uint2 codes = *reinterpret_cast<const uint2*>(from + at);
      float y[width];
#pragma unroll
      for (int i = 0; i < width; i += 2) {
        const auto pair = static_cast<__nv_fp8x2_storage_t>((i < 4 ? codes.x : codes.y) >> i % 4 * 8);
        const float2 decoded = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
        y[i] = decoded.x * scale;
        y[i + 1] = decoded.y * scale;
      }
      tile::cuda::write<to, width, aligned, CachePolicy::cached>(result, at, y);
    }
  } else {
    __shared__ alignas(16) std::uint8_t blocks[Layout::chunk_bytes];
    copy_bytes(blocks, from + std::int64_t{blockIdx.x} * Layout::chunk_bytes, bytes_of_chunk<Layout>(first, elements));
    __syncthreads();
#pragma unroll
    for (int element = static_cast<int>(threadIdx.x) * width; element < chunk; element += threads * width) {
      if (first + element >= elements) break;
      const float scale = load_scale<Layout::dtype>(blocks + Layout::scale_offset(element));
      const std::uint8_t* const codes = blocks + Layout::code_offset(element);
      float y[width];
#pragma unroll
      for (int i = 0; i < width; ++i) y[i] = decode_element<Layout::dtype>(codes, i) * scale;
      tile::cuda::write<to, width, aligned, CachePolicy::cached>(result, first + element, y);
    }
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

// Returns the larger number, or NaN if one is NaN.
__device__ float max_or_nan(float x, float y) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(x), "f"(y));
  return out;
}
// Returns the largest magnitude of the values of the lanes that share a scale, or NaN if one is NaN.
template <int lanes> __device__ float find_largest(const float (&x)[width]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < width; ++i) largest = max_or_nan(largest, fabsf(x[i]));
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2)
    largest = max_or_nan(largest, __shfl_xor_sync(~0u, largest, other));
  return largest;
}

// Stores the scale of a block and returns it; it returns 0 if all codes are 0.
template <DType dtype> __device__ float store_scale(float largest, bool stores, std::uint8_t* to) {
  const bool is_finite = largest < __uint_as_float(0x7f800000);
  if constexpr (dtype == DType::e4m3_128) {
    const float scale = is_finite ? e4m3_128_scale(largest) : __uint_as_float(0x7fc00000);
    if (stores) *reinterpret_cast<float*>(to) = scale;
    return is_finite ? scale : 0;
  } else {
    const std::uint8_t code = is_finite ? encode_scale<dtype>(largest) : nan_scale_code<dtype>;
    if (stores) *to = code;
    return is_finite ? decode_scale<dtype>(code) : 0;
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

template <DType dtype> __device__ void store_codes(const float (&x)[width], float scale, std::uint8_t* to) {
  if constexpr (dtype_bits(dtype) == 8) {
    uint2 codes = make_uint2(0, 0);
    if (scale != 0) codes = encode_e4m3([&](int i) { return divide_by_scale<dtype>(x[i], scale); });
#pragma unroll
    for (int i = 0; i < width; ++i) to[i] = static_cast<std::uint8_t>((i < 4 ? codes.x : codes.y) >> i % 4 * 8);
  } else {
#pragma unroll
    for (int i = 0; i < width; i += 2) {
      const auto code = [&](int at) {
        return scale == 0 ? 0 : encode<element_codes<dtype>>(divide_by_scale<dtype>(x[at], scale));
      };
      to[i / 2] = static_cast<std::uint8_t>(code(i) | code(i + 1) << 4);
    }
  }
}

template <class Layout, NumberFormat from, bool is_vector> __global__ void __launch_bounds__(threads)
    quantize_kernel(const QuantizeLaunch run) {
  constexpr DType dtype = Layout::dtype;
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
  constexpr int rounds = chunk / (threads * width);
  float x[rounds][width];
#pragma unroll
  for (int r = 0; r < rounds; ++r)
    load_values<from, is_vector>(run, first + (r * threads + static_cast<int>(threadIdx.x)) * width, x[r]);
  if constexpr (has_planes_on_devices(dtype)) {
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const std::int64_t at = first + (r * threads + static_cast<int>(threadIdx.x)) * width;
      const float largest = find_largest<Layout::block / width>(x[r]);
      if (at >= run.elements) continue;
      const float scale = store_scale<dtype>(largest, at % Layout::block == 0,
                                             run.result + BlockPlanes::scale_offset(at, run.elements));
      *reinterpret_cast<uint2*>(run.result + at) = scale == 0 ? make_uint2(0, 0) : encode_quotients(x[r], scale);
    }
  } else {
    __shared__ alignas(16) std::uint8_t blocks[Layout::chunk_bytes];
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int element = (r * threads + static_cast<int>(threadIdx.x)) * width;
      const float largest = find_largest<Layout::block / width>(x[r]);
      const float scale =
          store_scale<dtype>(largest, element % Layout::block == 0, blocks + Layout::scale_offset(element));
      store_codes<dtype>(x[r], scale, blocks + Layout::code_offset(element));
    }
    __syncthreads();
    copy_bytes(run.result + std::int64_t{blockIdx.x} * Layout::chunk_bytes, blocks,
               bytes_of_chunk<Layout>(first, run.elements));
  }
}

// Calls f.operator()<Layout>() with the layout of a block-scaled dtype.
template <class F> void with_layout(DType dtype, const F& f) {
  switch (dtype) {
    case DType::mxfp8: return f.template operator()<BlockLayout<DType::mxfp8>>();
    case DType::mxfp4: return f.template operator()<BlockLayout<DType::mxfp4>>();
    case DType::nvfp4: return f.template operator()<BlockLayout<DType::nvfp4>>();
    default: return f.template operator()<BlockLayout<DType::e4m3_128>>();
  }
}

// The same for a dtype that is converted, which may also be int8 or e4m3.
template <class F> void with_narrow_layout(DType dtype, const F& f) {
  if (dtype == DType::int8) return f.template operator()<BlockLayout<DType::int8>>();
  if (dtype == DType::e4m3) return f.template operator()<BlockLayout<DType::e4m3>>();
  with_layout(dtype, f);
}

Status check_alignment(DType dtype, const void* blocks) {
  if (!has_planes_on_devices(dtype) || reinterpret_cast<std::uintptr_t>(blocks) % 16 == 0) return Done{};
  return input_error("expected the address of e4m3_128 on a device to be a multiple of 16 bytes",
                     "allocate it as a tensor of its own");
}

}  // namespace

Status run_loops(const DequantizeLoops& l, std::span<void* const> data, CUstream_st* stream) {
  if (l.elements == 0) return Done{};
  const auto* const from = static_cast<const std::uint8_t*>(data[0]);
  auto* const to = static_cast<char*>(data[1]);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  RIDGE_TRY_STATUS(check_alignment(l.values, from));
  with_narrow_layout(l.values, [&]<class Layout>() {
    with_format(l.result, [&]<NumberFormat format>() {
      (is_aligned ? dequantize_kernel<Layout, format, 16 / tile::cuda::size_of<format>>
                  : dequantize_kernel<Layout, format, 1>)<<<blocks_for(l.elements, chunk), threads, 0, stream>>>(
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
  with_layout(l.result, [&]<class Layout>() {
    with_format(l.values, [&]<NumberFormat format>() {
      (is_vector
           ? quantize_kernel<Layout, format, true>
           : quantize_kernel<Layout, format, false>)<<<blocks_for(run.elements, chunk), threads, 0, stream>>>(run);
    });
  });
  return device::to_status(cudaGetLastError(), "launching a quantization");
}

}  // namespace ridge::ops::cuda
