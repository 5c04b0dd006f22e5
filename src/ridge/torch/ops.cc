// torch.ops.ridge.matmul, through PyTorch's stable ABI: one library for every PyTorch from 2.9 on. Fake tensors and
// derivatives are said in Python (python/ridge/torch).
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <stdexcept>
#include <vector>

#include "ridge/compute.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

ridge::DType dtype_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float: return ridge::DType::f32;
    case ScalarType::BFloat16: return ridge::DType::bf16;
    case ScalarType::Half: return ridge::DType::f16;
    default: throw std::runtime_error("ridge::matmul: expected float32, bfloat16 or float16");
  }
}

// A tensor with its sizes and strides held for the view.
struct Viewed {
  std::vector<std::int64_t> shape, strides;
  ridge::ArrayView view;

  Viewed(const Tensor& tensor, void* data) {
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
      shape.push_back(tensor.size(axis));
      strides.push_back(tensor.stride(axis));
    }
    view = {data, dtype_of(tensor), shape, strides};
  }
};

std::vector<std::int64_t> product_shape(const Tensor& a, const Tensor& b) {
  if (a.dim() < 2 || b.dim() < 2) throw std::runtime_error("ridge::matmul: expected matrices of at least two axes");
  const Tensor& longer = a.dim() > 2 ? a : b;
  std::vector<std::int64_t> out;
  for (std::int64_t axis = 0; axis + 2 < longer.dim(); ++axis) out.push_back(longer.size(axis));
  out.push_back(a.size(a.dim() - 2));
  out.push_back(b.size(b.dim() - 1));
  return out;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  const Viewed left(a, a.data_ptr()), right(b, b.data_ptr()), result(out, out.data_ptr());
  const ridge::Status done = ridge::matmul(left.view, right.view, result.view);
  if (!done) throw std::runtime_error(done.error().text());
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY(ridge, library) { library.def("matmul(Tensor a, Tensor b) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(ridge, CPU, library) { library.impl("matmul", TORCH_BOX(&matmul)); }
