// torch.ops.ridge.matmul, through PyTorch's stable ABI: one library for every PyTorch from 2.9 on, with CUDA or
// without. Fake tensors and derivatives are said in Python (python/ridge/torch).
#include <dlfcn.h>
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

void check(const ridge::Status& done) {
  if (!done) throw std::runtime_error(done.error().text());
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  const Viewed left(a, a.data_ptr()), right(b, b.data_ptr()), result(out, out.data_ptr());
  check(ridge::matmul(left.view, right.view, result.view));
  return out;
}

// The current stream's function lies in PyTorch's library for CUDA, which a PyTorch for CPUs has not: it is looked up
// when the first tensor of a device comes.
CUstream_st* current_stream(int device) {
  using Ask = AOTITorchError (*)(std::int32_t, void**);
  static const auto ask = [] {
    void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Ask>(library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr);
  }();
  if (!ask)
    throw std::runtime_error(
        "ridge::matmul: expected aoti_torch_get_current_cuda_stream in PyTorch's libtorch_cuda.so, found none");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(ask(device, &stream));
  return static_cast<CUstream_st*>(stream);
}

// What kernels do not walk where it lies is copied in order.
Tensor walked(const Tensor& tensor) {
  if (ridge::MatmulOnDevice::reads(Viewed(tensor, tensor.data_ptr()).view)) return tensor;
  std::vector<std::int64_t> shape;
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) shape.push_back(tensor.size(axis));
  Tensor copy = torch::stable::new_empty(tensor, shape);
  return torch::stable::copy_(copy, tensor, true);
}

Tensor matmul_on_device(const Tensor& a, const Tensor& b) {
  const int device = a.get_device_index();
  if (!a.is_cuda() || !b.is_cuda() || b.get_device_index() != device)
    throw std::runtime_error("ridge::matmul: expected both tensors on one CUDA device");
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  const Tensor x = walked(a), y = walked(b);
  const Viewed left(x, x.data_ptr()), right(y, y.data_ptr()), result(out, out.data_ptr());
  const auto product = ridge::MatmulOnDevice::make(device, left.view, right.view, result.view);
  if (!product) throw std::runtime_error(product.error().text());
  CUstream_st* const stream = current_stream(device);
  if (product->scratch_bytes() == 0) {
    check(product->queue(stream, nullptr));
    return out;
  }
  const std::vector<std::int64_t> bytes{product->scratch_bytes()};
  const Tensor scratch = torch::stable::new_empty(a, bytes, ScalarType::Byte);
  check(product->queue(stream, scratch.data_ptr()));
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY(ridge, library) { library.def("matmul(Tensor a, Tensor b) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(ridge, CPU, library) { library.impl("matmul", TORCH_BOX(&matmul)); }
STABLE_TORCH_LIBRARY_IMPL(ridge, CUDA, library) { library.impl("matmul", TORCH_BOX(&matmul_on_device)); }
