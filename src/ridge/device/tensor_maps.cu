#include "ridge/device/tensor_maps.h"

#include <cuda_runtime.h>

#include <optional>

namespace ridge::device {
namespace {

template <class Encoder> Encoder find_encoder(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t e = cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found);
  return reinterpret_cast<Encoder>(e == cudaSuccess ? f : nullptr);
}
decltype(&cuTensorMapEncodeTiled) map_encoder() {
  static const auto encoder = find_encoder<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  return encoder;
}
decltype(&cuTensorMapEncodeIm2col) window_map_encoder() {
  static const auto encoder = find_encoder<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  return encoder;
}

CUtensorMapSwizzle swizzle_mode(std::int64_t box_row_bytes) {
  switch (box_row_bytes) {
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

std::optional<CUtensorMapDataType> tensor_map_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::e4m3:
    case DType::int8: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::tf32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default: return std::nullopt;
  }
}

// Axes of a tensor map, the contiguous one first. Sizes and box are in elements, strides in bytes.
struct TensorMapAxes {
  int rank;
  cuuint64_t sizes[5], strides[4];
  cuuint32_t box[5];
};

// Strides of an axis of size 1 or of stride 0: the smallest that TMA accepts.
cuuint64_t min_stride_bytes(const TensorMapAxes& x, DType dtype) {
  return (x.sizes[0] * static_cast<cuuint64_t>(operand_bytes(dtype)) + 15) / 16 * 16;
}
cuuint64_t stride_bytes(std::int64_t elements, DType dtype) {
  return static_cast<cuuint64_t>(elements * operand_bytes(dtype));
}

bool encode_axes(CUtensorMap& map, void* data, const TensorMapAxes& x, DType dtype, CUtensorMapSwizzle swizzle,
                 CUtensorMapL2promotion promotion) {
  const std::optional<CUtensorMapDataType> type = tensor_map_type(dtype);
  constexpr cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  return type && map_encoder()(&map, *type, static_cast<cuuint32_t>(x.rank), data, x.sizes, x.strides, x.box, steps,
                               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

bool encode_tensor_map(CUtensorMap& map, const MatrixBatch& x, DType dtype, TensorMapBox box, bool swizzled) {
  const std::int64_t matrix = x.matrices == 1 ? x.line_stride : x.matrix_stride;
  const TensorMapAxes axes{
      3,
      {static_cast<cuuint64_t>(x.length), static_cast<cuuint64_t>(x.lines), static_cast<cuuint64_t>(x.matrices)},
      {stride_bytes(x.line_stride, dtype), stride_bytes(matrix, dtype)},
      {static_cast<cuuint32_t>(box.x), static_cast<cuuint32_t>(box.y), 1}};
  // L2 promotion of 128 bytes, a line of the box: 256 would fetch the neighbouring line too early or twice. Streaming
  // weights runs at 4.35 TB/s on an H200 instead of 4.16; large products are equally fast with either.
  return encode_axes(map, x.data, axes, dtype,
                     swizzled ? swizzle_mode(box.x * operand_bytes(dtype)) : CU_TENSOR_MAP_SWIZZLE_NONE,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

bool encode_tensor_map(CUtensorMap& map, const MatrixBatch2D& x, DType dtype, TensorMapBox box) {
  TensorMapAxes axes{4,
                     {static_cast<cuuint64_t>(x.length), static_cast<cuuint64_t>(x.lines),
                      static_cast<cuuint64_t>(x.inner), static_cast<cuuint64_t>(x.outer)},
                     {},
                     {static_cast<cuuint32_t>(box.x), static_cast<cuuint32_t>(box.y), 1, 1}};
  const std::int64_t strides[3] = {x.line_stride, x.inner_stride, x.outer_stride};
  for (int i = 0; i < 3; ++i)
    axes.strides[i] =
        axes.sizes[i + 1] == 1 || strides[i] == 0 ? min_stride_bytes(axes, dtype) : stride_bytes(strides[i], dtype);
  return encode_axes(map, x.data, axes, dtype, swizzle_mode(box.x * operand_bytes(dtype)),
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

bool encode_tensor_map(CUtensorMap& map, const FiveAxisTensor& x, DType dtype) {
  TensorMapAxes axes{5, {}, {}, {1, 1, 1, 1, 1}};
  for (int i = 0; i < 5; ++i) axes.sizes[i] = static_cast<cuuint64_t>(x.sizes[i]);
  for (int i = 0; i < 4; ++i)
    axes.strides[i] =
        x.sizes[i + 1] == 1 || x.strides[i] == 0 ? min_stride_bytes(axes, dtype) : stride_bytes(x.strides[i], dtype);
  for (int i = 0; i < 3; ++i) axes.box[i] = static_cast<cuuint32_t>(x.box[i]);
  return encode_axes(map, x.data, axes, dtype, swizzle_mode(x.box[0] * operand_bytes(dtype)),
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

bool encode_tensor_map(CUtensorMap& map, const ImageTensor& x, DType dtype, int pixels) {
  const std::optional<CUtensorMapDataType> type = tensor_map_type(dtype);
  TensorMapAxes axes{x.axes + 2, {static_cast<cuuint64_t>(x.channels)}, {}, {}};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < x.axes; ++i) {
    axes.sizes[i + 1] = static_cast<cuuint64_t>(x.sizes[i]);
    axes.strides[i] = stride_bytes(x.strides[i], dtype);
    steps[i + 1] = static_cast<cuuint32_t>(x.step[i]);
  }
  axes.sizes[x.axes + 1] = static_cast<cuuint64_t>(x.images);
  axes.strides[x.axes] = stride_bytes(x.image_stride, dtype);
  return type && window_map_encoder()(&map, *type, static_cast<cuuint32_t>(axes.rank), x.data, axes.sizes, axes.strides,
                                      x.first, x.last, static_cast<cuuint32_t>(swizzled_elements(dtype)),
                                      static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace ridge::device
