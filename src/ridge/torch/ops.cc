// torch.ops.ridge.matmul, compiled against PyTorch's stable ABI: one library for every PyTorch from 2.9 on, with or
// without CUDA. Fake tensors and derivatives are defined in Python (python/ridge/torch).
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

// Returns this thread's last error message. If an operator calls another one that fails, the stable ABI does not pass
// on the message.
std::string& last_error() {
  thread_local std::string text;
  return text;
}
[[noreturn]] void throw_error(const std::string& text) {
  last_error() = text;
  throw std::runtime_error(text);
}

ridge::DType to_dtype(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float: return ridge::DType::f32;
    case ScalarType::BFloat16: return ridge::DType::bf16;
    case ScalarType::Half: return ridge::DType::f16;
    default: throw_error("ridge::matmul: expected float32, bfloat16 or float16");
  }
}

// The view references the tensor's sizes and strides.
ridge::ArrayView to_view(const Tensor& tensor) {
  const std::size_t rank = tensor.dim();
  return {tensor.data_ptr(), to_dtype(tensor), {tensor.sizes().data(), rank}, {tensor.strides().data(), rank}};
}

void check_axes(const Tensor& a, const Tensor& b) {
  if (a.dim() < 2 || b.dim() < 2) throw_error("ridge::matmul: expected matrices of at least two axes");
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

void check_status(const ridge::Status& status) {
  if (!status) throw_error(status.error().to_string());
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  check_status(ridge::matmul(to_view(a), to_view(b), to_view(out)));
  return out;
}

// Returns PyTorch's current stream. The function is in libtorch_cuda.so, which a CPU-only PyTorch lacks, so it is
// looked up at the first call with CUDA tensors.
CUstream_st* current_stream(int device) {
  using Ask = AOTITorchError (*)(std::int32_t, void**);
  static const auto get_stream = [] {
    void* const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Ask>(library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr);
  }();
  if (!get_stream)
    throw_error("ridge::matmul: expected aoti_torch_get_current_cuda_stream in PyTorch's libtorch_cuda.so, found none");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(get_stream(device, &stream));
  return static_cast<CUstream_st*>(stream);
}

// Returns the tensor, copied to row-major order if the kernels cannot read its layout.
Tensor make_readable(const Tensor& tensor) {
  if (ridge::MatmulOnDevice::reads(to_view(tensor))) return tensor;
  Tensor copy = torch::stable::new_empty(tensor, tensor.sizes());
  return torch::stable::copy_(copy, tensor, true);
}

Tensor matmul_on_device(const Tensor& a, const Tensor& b) {
  const int device = a.get_device_index();
  if (!a.is_cuda() || !b.is_cuda() || b.get_device_index() != device)
    throw_error("ridge::matmul: expected both tensors on one CUDA device");
  Tensor out = torch::stable::new_empty(a, product_shape(a, b));
  const Tensor x = make_readable(a), y = make_readable(b);
  const auto product = ridge::MatmulOnDevice::make(device, to_view(x), to_view(y), to_view(out));
  if (!product) throw_error(product.error().to_string());
  CUstream_st* const stream = current_stream(device);
  if (product->scratch_bytes() == 0) {
    check_status(product->queue(stream, nullptr));
    return out;
  }
  const std::vector<std::int64_t> bytes{product->scratch_bytes()};
  const Tensor scratch = torch::stable::new_empty(a, bytes, ScalarType::Byte);
  check_status(product->queue(stream, scratch.data_ptr()));
  return out;
}

Tensor call_operator(const char* name, std::array<StableIValue, 2> stack) {
  last_error().clear();
  if (aoti_torch_call_dispatcher(name, "", stack.data()) != AOTI_TORCH_SUCCESS)
    throw_error(last_error().empty() ? std::string(name) + " failed" : last_error());
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// True if the tensor requires a gradient. The stable ABI cannot query that, but it can query whether a view has a
// history.
bool requires_gradient(Tensor tensor) {
  StableIValue is_leaf = torch::stable::detail::from(torch::stable::narrow(tensor, 0, 0, tensor.size(0)));
  TORCH_ERROR_CODE_CHECK(aoti_torch_call_dispatcher("aten::is_leaf", "", &is_leaf));
  return !torch::stable::detail::to<bool>(is_leaf);
}

Tensor matmul_any(const Tensor& a, const Tensor& b) {
  check_axes(a, b);
  const bool is_recorded = aoti_torch_grad_mode_is_enabled() && (requires_gradient(a) || requires_gradient(b));
  return call_operator(is_recorded ? "ridge::matmul_recorded" : "ridge::matmul_unrecorded",
                       {torch::stable::detail::from(a), torch::stable::detail::from(b)});
}

}  // namespace

// Calls that require a gradient go through Python, which records them (python/ridge/torch).
STABLE_TORCH_LIBRARY(ridge, library) {
  library.def("matmul(Tensor a, Tensor b) -> Tensor");
  library.def("matmul_recorded(Tensor a, Tensor b) -> Tensor");
  library.def("matmul_unrecorded(Tensor a, Tensor b) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(ridge, CompositeImplicitAutograd, library) { library.impl("matmul", TORCH_BOX(&matmul_any)); }
STABLE_TORCH_LIBRARY_IMPL(ridge, CPU, library) { library.impl("matmul_unrecorded", TORCH_BOX(&matmul)); }
STABLE_TORCH_LIBRARY_IMPL(ridge, CUDA, library) { library.impl("matmul_unrecorded", TORCH_BOX(&matmul_on_device)); }
