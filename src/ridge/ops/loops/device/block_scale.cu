// Quantization and its inverse on a device. Blocks of 17 or 33 bytes have no alignment that vectors of 16 bytes could
// use, so that each thread block moves a chunk of 4096 elements through shared memory; chunks begin at multiples of 16
// bytes. Each thread converts eight elements of one scale at a time.
#include <span>

#include "ridge/base/block_scale.h"
#include "ridge/base/scaled_codes.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/loops/device/loops.h"

namespace ridge::ops::cuda {
namespace {

constexpr int threads = 256, width = 8, chunk = 4096;

// With `in_quads`, blocks are stored as `BlockQuad` says.
template <DType type, bool in_quads> struct BlockLayout {
  static constexpr DType dtype = type;
  static constexpr DTypeInfo info = dtype_info(dtype);
  // Elements without scales count as blocks of any size.
  static constexpr int block = is_block_scaled(dtype) ? info.block : 32, scale_bytes = info.scale_bits / 8,
                       bytes = scale_bytes + block * info.bits / 8;
  static constexpr int chunk_bytes = chunk / block * bytes;
  static_assert(chunk_bytes % 16 == 0);
  // Returns the offset of the codes of eight elements of a chunk, and that of their scale.
  __device__ static int code_offset(int element) {
    if constexpr (in_quads) return static_cast<int>(BlockQuad::element_offset(element));
    return element / block * bytes + scale_bytes + element % block * info.bits / 8;
  }
  __device__ static int scale_offset(int element) {
    if constexpr (in_quads) return static_cast<int>(BlockQuad::scale_offset(element));
    return element / block * bytes;
  }
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
  if constexpr (dtype == DType::e4m3_128)
    return *reinterpret_cast<const float*>(block);
  else
    return is_block_scaled(dtype) ? decode_scale<dtype>(*block) : 1;
}
template <DType dtype> __device__ float decode_element(const std::uint8_t* codes, int i) {
  if constexpr (dtype == DType::int8) return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  return dtype_bits(dtype) == 8 ? decode_e4m3(codes[i]) : decode_e2m1(codes[i / 2] >> i % 2 * 4);
}

// `aligned` is the number of elements of the result that one store covers.
template <class Layout, NumberFormat to, int aligned> __global__ void __launch_bounds__(threads)
    dequantize_kernel(const std::uint8_t* from, char* result, std::int64_t elements) {
  __shared__ alignas(16) std::uint8_t blocks[Layout::chunk_bytes];
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
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

struct QuantizeLaunch {
  DeviceLoopAxes lines;
  const char* values;
  std::uint8_t* result;
  std::int64_t extent, stride, elements;
};

template <NumberFormat from, bool is_vector>
__device__ void load_values(const QuantizeLaunch& run, std::int64_t element, float (&x)[width]) {
  const bool exists = element < run.elements;
  const std::int64_t line = divide(exists ? element : 0, run.extent);
  const std::int64_t first =
      offsets_at(run.lines, line).values + ((exists ? element : 0) - line * run.extent) * run.stride;
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

// Returns the bits of the largest magnitude of the values of the lanes that share a scale.
template <int lanes> __device__ std::uint32_t find_largest(const float (&x)[width]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const std::uint32_t magnitude = __float_as_uint(x[i]) & INT32_MAX;
    largest = magnitude > largest ? magnitude : largest;
  }
#pragma unroll
  for (int other = lanes / 2; other > 0; other /= 2) {
    const std::uint32_t theirs = __shfl_xor_sync(~0u, largest, other);
    largest = theirs > largest ? theirs : largest;
  }
  return largest;
}

// Stores the scale of a block and returns it; it returns 0 if all codes are 0.
template <DType dtype> __device__ float store_scale(std::uint32_t largest, bool stores, std::uint8_t* block) {
  constexpr std::uint32_t infinity_bits = 0x7f800000;
  const bool is_finite = largest < infinity_bits;
  if constexpr (dtype == DType::e4m3_128) {
    const float scale = is_finite ? e4m3_128_scale(__uint_as_float(largest)) : __uint_as_float(0x7fc00000);
    if (stores) *reinterpret_cast<float*>(block) = scale;
    return is_finite ? scale : 0;
  } else {
    const std::uint8_t code = is_finite ? encode_scale<dtype>(__uint_as_float(largest)) : nan_scale_code<dtype>;
    if (stores) *block = code;
    return is_finite ? decode_scale<dtype>(code) : 0;
  }
}

template <DType dtype> __device__ void store_codes(const float (&x)[width], float scale, std::uint8_t* to) {
  std::uint32_t codes[width];
#pragma unroll
  for (int i = 0; i < width; ++i)
    codes[i] = scale == 0 ? 0 : encode<element_codes<dtype>>(divide_by_scale<dtype>(x[i], scale));
  if constexpr (dtype_bits(dtype) == 8) {
#pragma unroll
    for (int i = 0; i < width; ++i) to[i] = static_cast<std::uint8_t>(codes[i]);
  } else {
#pragma unroll
    for (int i = 0; i < width; i += 2) to[i / 2] = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
  }
}

template <class Layout, NumberFormat from, bool is_vector> __global__ void __launch_bounds__(threads)
    quantize_kernel(const QuantizeLaunch run) {
  constexpr DType dtype = Layout::dtype;
  __shared__ alignas(16) std::uint8_t blocks[Layout::chunk_bytes];
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk;
  constexpr int rounds = chunk / (threads * width);
  float x[rounds][width];
#pragma unroll
  for (int r = 0; r < rounds; ++r)
    load_values<from, is_vector>(run, first + (r * threads + static_cast<int>(threadIdx.x)) * width, x[r]);
#pragma unroll
  for (int r = 0; r < rounds; ++r) {
    const int element = (r * threads + static_cast<int>(threadIdx.x)) * width;
    const std::uint32_t largest = find_largest<Layout::block / width>(x[r]);
    const float scale =
        store_scale<dtype>(largest, element % Layout::block == 0, blocks + Layout::scale_offset(element));
    store_codes<dtype>(x[r], scale, blocks + Layout::code_offset(element));
  }
  __syncthreads();
  copy_bytes(run.result + std::int64_t{blockIdx.x} * Layout::chunk_bytes, blocks,
             bytes_of_chunk<Layout>(first, run.elements));
}

// Calls f.operator()<Layout>() with the layout of a tensor.
template <class F> void with_layout(DType dtype, std::int64_t elements, const F& f) {
  switch (dtype) {
    case DType::mxfp8: return f.template operator()<BlockLayout<DType::mxfp8, false>>();
    case DType::mxfp4: return f.template operator()<BlockLayout<DType::mxfp4, false>>();
    case DType::nvfp4: return f.template operator()<BlockLayout<DType::nvfp4, false>>();
    default:
      if (has_quads_on_devices(dtype, elements)) return f.template operator()<BlockLayout<DType::e4m3_128, true>>();
      return f.template operator()<BlockLayout<DType::e4m3_128, false>>();
  }
}

// The same for a tensor that is converted, which may also be of int8 or e4m3.
template <class F> void with_narrow_layout(DType dtype, std::int64_t elements, const F& f) {
  if (dtype == DType::int8) return f.template operator()<BlockLayout<DType::int8, false>>();
  if (dtype == DType::e4m3) return f.template operator()<BlockLayout<DType::e4m3, false>>();
  with_layout(dtype, elements, f);
}

}  // namespace

Status run_loops(const DequantizeLoops& l, std::span<void* const> data, CUstream_st* stream) {
  if (l.elements == 0) return Done{};
  const auto* const from = static_cast<const std::uint8_t*>(data[0]);
  auto* const to = static_cast<char*>(data[1]);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  with_narrow_layout(l.values, l.elements, [&]<class Layout>() {
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
  const QuantizeLaunch run{.lines = make_device_axes(axes),
                           .values = static_cast<const char*>(data[0]),
                           .result = static_cast<std::uint8_t*>(data[1]),
                           .extent = l.axis.extent,
                           .stride = l.axis.values,
                           .elements = count_points(axes) * l.axis.extent};
  if (run.elements == 0) return Done{};
  const std::int64_t bytes = dtype_bits(l.values) / 8;
  std::vector<std::int64_t> distances;
  for (const LoopAxis& axis : axes) distances.push_back(axis.values * bytes);
  const bool is_vector = l.axis.values == 1 && widest_word({run.values}, distances) == 16;
  with_layout(l.result, run.elements, [&]<class Layout>() {
    with_format(l.values, [&]<NumberFormat format>() {
      (is_vector
           ? quantize_kernel<Layout, format, true>
           : quantize_kernel<Layout, format, false>)<<<blocks_for(run.elements, chunk), threads, 0, stream>>>(run);
    });
  });
  return device::to_status(cudaGetLastError(), "launching a quantization");
}

}  // namespace ridge::ops::cuda
