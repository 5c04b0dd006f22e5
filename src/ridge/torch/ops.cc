// torch.ops.ridge.matmul, through PyTorch's stable ABI: one library for every PyTorch from 2.9 on, with CUDA or
// without. Fake tensors and derivatives are said in Python (python/ridge/torch).
#include <dlfcn.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "ridge/compute.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// What was said last in this thread: of one operator that calls another, the stable ABI hands on that it failed, and
// not why.
std::string& last_words() {
  thread_local std::string text;
  return text;
}
[[noreturn]] void fail(const std::string& text) {
  last_words() = text;
  throw std::runtime_error(text);
}

ridge::DType dtype_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float: return ridge::DType::f32;
    case ScalarType::BFloat16: return ridge::DType::bf16;
    case ScalarType::Half: return ridge::DType::f16;
    default: fail("ridge::matmul: expected float32, bfloat16 or float16");
  }
}

// It borrows the tensor's sizes and strides.
ridge::ArrayView view_of(const Tensor& tensor) {
  const auto rank = static_cast<std::size_t>(tensor.dim());
  return {tensor.data_ptr(), dtype_of(tensor), {tensor.sizes().data(), rank}, {tensor.strides().data(), rank}};
}

void check_axes(const Tensor& a, const Tensor& b) {
  if (a.dim() < 2 || b.dim() < 2) fail("ridge::matmul: expected matrices of at least two axes");
}

std::vector<std::int64_t> product_shape(const Tensor& a, const Tensor& b) {
  check_axes(a, b);
  const Tensor& longer = a.dim() > 2 ? a : b;
  std::vector<std::int64_t> out;
  for (std::int64_t axis = 0; axis + 2 < longer.dim(); ++axis) out.push_back(longer.size(axis));
  out.push_back(a.size(a.dim() - 2));
  out.push_back(b.size(b.dim() - 1));
  return out;
}

void check(const ridge::Status& done) {
  if (!done) fail(done.error().text());
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  check(ridge::matmul(view_of(a), view_of(b), view_of(out)));
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
    fail("ridge::matmul: expected aoti_torch_get_current_cuda_stream in PyTorch's libtorch_cuda.so, found none");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(ask(device, &stream));
  return static_cast<CUstream_st*>(stream);
}

// What kernels do not walk where it lies is copied in order.
Tensor walked(const Tensor& tensor) {
  if (ridge::MatmulOnDevice::reads(view_of(tensor))) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  return torch::stable::copy_(copy, tensor, true);
}

Tensor matmul_on_device(const Tensor& a, const Tensor& b) {
  const int device = a.get_device_index();
  if (!a.is_cuda() || !b.is_cuda() || b.get_device_index() != device)
    fail("ridge::matmul: expected both tensors on one CUDA device");
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  const Tensor x = walked(a), y = walked(b);
  const auto product = ridge::MatmulOnDevice::make(device, view_of(x), view_of(y), view_of(out));
  if (!product) fail(product.error().text());
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

Tensor called(const char* name, std::array<StableIValue, 2> stack) {
  last_words().clear();
  if (aoti_torch_call_dispatcher(name, "", stack.data()) != AOTI_TORCH_SUCCESS)
    fail(last_words().empty() ? std::string(name) + " failed" : last_words());
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// Whether it wants a gradient is no question of the stable ABI; whether a view of it has a history is one.
bool wants_gradient(Tensor tensor) {
  StableIValue answer = torch::stable::detail::from(torch::stable::narrow(tensor, 0, 0, tensor.size(0)));
  TORCH_ERROR_CODE_CHECK(aoti_torch_call_dispatcher("aten::is_leaf", "", &answer));
  return !torch::stable::detail::to<bool>(answer);
}

Tensor matmul_any(const Tensor& a, const Tensor& b) {
  check_axes(a, b);
  const bool records = aoti_torch_grad_mode_is_enabled() && (wants_gradient(a) || wants_gradient(b));
  return called(records ? "ridge::matmul_recorded" : "ridge::matmul_unrecorded",
                {torch::stable::detail::from(a), torch::stable::detail::from(b)});
}

}  // namespace

// Only where a gradient is wanted does a call meet Python, which records it (python/ridge/torch).
STABLE_TORCH_LIBRARY(ridge, library) {
  library.def("matmul(Tensor a, Tensor b) -> Tensor");
  library.def("matmul_recorded(Tensor a, Tensor b) -> Tensor");
  library.def("matmul_unrecorded(Tensor a, Tensor b) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(ridge, CompositeImplicitAutograd, library) { library.impl("matmul", TORCH_BOX(&matmul_any)); }
STABLE_TORCH_LIBRARY_IMPL(ridge, CPU, library) { library.impl("matmul_unrecorded", TORCH_BOX(&matmul)); }
STABLE_TORCH_LIBRARY_IMPL(ridge, CUDA, library) { library.impl("matmul_unrecorded", TORCH_BOX(&matmul_on_device)); }
