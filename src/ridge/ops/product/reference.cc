#include "ridge/ops/product/reference.h"

#include <cmath>
#include <cstring>

#include "ridge/base/block_scale.h"
#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"

namespace ridge::ops {
namespace {

std::int64_t element_offset(const MatrixLayout& x, std::int64_t batch, std::int64_t row, std::int64_t col) {
  return batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
}

template <class T> T read_unaligned(const void* data, std::int64_t index) {
  T x;
  std::memcpy(&x, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof x);
  return x;
}

template <class T> void write_unaligned(void* data, std::int64_t index, T x) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &x, sizeof x);
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    case DType::f32: return 0x1p-24;
    default: return 0;
  }
}

}  // namespace

double read_element(const MatrixLayout& x, const void* data, std::int64_t batch, std::int64_t row, std::int64_t col) {
  const std::int64_t i = element_offset(x, batch, row, col);
  if (is_block_scaled(x.dtype)) return load_scaled_element(x.dtype, data, i);
  double value = 0;
  const bool is_read =
      StorageDTypes::dispatch(x.dtype, [&]<class T>() { value = to_double(read_unaligned<T>(data, i)); });
  RIDGE_CHECK(is_read, dtype_name(x.dtype));
  return value;
}

void write_element(const MatrixLayout& x, void* data, std::int64_t batch, std::int64_t row, std::int64_t col,
                   double value) {
  const std::int64_t i = element_offset(x, batch, row, col);
  using Written = DTypeSet<DType::f32, DType::bf16, DType::f16, DType::int8, DType::int32>;
  const bool is_written = Written::dispatch(x.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      write_unaligned(data, i, static_cast<T>(value));
    else
      write_unaligned(data, i, round_to<T>(static_cast<float>(value)));
  });
  RIDGE_CHECK(is_written, dtype_name(x.dtype));
}

ReferenceElement reference_element(const MatmulProblem& p, const void* a, const void* b, std::int64_t batch,
                                   std::int64_t row, std::int64_t col) {
  ReferenceElement sum;
  for (std::int64_t k = 0; k < p.size.k; ++k) {
    const double product = read_element(p.a, a, batch, row, k) * read_element(p.b, b, batch, k, col);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

double apply_activation(tile::EpilogueActivation activation, double y) {
  using tile::EpilogueActivation;
  switch (activation) {
    case EpilogueActivation::none: return y;
    case EpilogueActivation::relu: return y < 0 ? 0 : y;
    case EpilogueActivation::gelu: return 0.5 * y * std::erfc(-y * 0.7071067811865476);
    case EpilogueActivation::gelu_tanh:
      return 0.5 * y * (1 + std::tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)));
    case EpilogueActivation::silu: return y / (1 + std::exp(-y));
  }
  return y;
}

double matmul_error_bound(const MatmulProblem& p, const ReferenceElement& element) {
  constexpr double safety_factor = 2;
  const double summing = safety_factor * static_cast<double>(p.size.k) * unit_roundoff(DType::f32) * element.magnitude;
  return summing + unit_roundoff(p.d.dtype) * (std::fabs(element.value) + summing) + 0x1p-126;
}

}  // namespace ridge::ops
