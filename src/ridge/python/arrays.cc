#include "ridge/python/arrays.h"

#include "ridge/python/device.h"
#include "ridge/python/tensors.h"

#include <nanobind/stl/string.h>

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t small_bytes = 1024;  // glibc takes 0.1 us longer for aligned memory than for any

void* allocate_memory(std::size_t bytes) {
  if (bytes <= small_bytes) return std::malloc(std::max<std::size_t>(bytes, 1));
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

std::optional<DType> from_dlpack(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
  for (const DTypeInfo& info : dtypes) {
    if (info.dtype == DType::tf32 || info.bits != dtype.bits) continue;
    const bool is_bf16 = info.dtype == DType::bf16;
    if (code == nb::dlpack::dtype_code::Bfloat && is_bf16) return info.dtype;
    if (code == nb::dlpack::dtype_code::Float && !info.is_integer && info.bits >= 16 && !is_bf16) return info.dtype;
    if (code == nb::dlpack::dtype_code::Int && info.is_integer) return info.dtype;
  }
  return std::nullopt;
}

nb::dlpack::dtype to_dlpack_dtype(DType dtype) {
  auto code = dtype_info(dtype).is_integer ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::Float;
  if (dtype == DType::bf16) code = nb::dlpack::dtype_code::Bfloat;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(dtype_bits(dtype)), 1};
}

std::string dtype_name(nb::handle array) {
  if (!nb::hasattr(array, "dtype")) return nb::cast<std::string>(nb::str(array.type()));
  const nb::object dtype = array.attr("dtype");
  return nb::cast<std::string>(nb::str(nb::handle(dtype)));
}

[[noreturn]] void raise_not_an_array(const std::string& name, nb::handle array, bool is_written) {
  if (nb::hasattr(array, "shape"))
    raise_error(input_error(
        fmt::format("'{}' is an array of {} that cannot be {}", name, dtype_name(array),
                    is_written ? "written through DLPack or the buffer protocol"
                               : "read through DLPack or the buffer protocol"),
        array_library(array) == ArrayLibrary::torch && !is_written
            ? "torch.ops.ridge takes the tensors of torch.func, torch.compile and 'meta'; x.to_dense() a sparse one"
            : ""));
  raise_error(input_error(
      fmt::format("expected an array for '{}', found {}", name, nb::cast<std::string>(nb::str(array.type())))));
}

// Returns the tensor, or a copy if PyTorch negates its elements when it reads them. Raises ridge.Error if a derivative
// would be lost or `is_written` is true and the elements are negated.
nb::object check_tensor(const std::string& name, nb::handle tensor, bool is_written) {
  if (has_derivative(tensor))
    raise_error(input_error(fmt::format("'{}' requires a gradient, but this function records none", name),
                            "pass x.detach(), or use the operators of ridge.torch, which have gradients"));
  if (!is_negated(tensor)) return nb::borrow(tensor);
  if (is_written)
    raise_error(input_error(fmt::format("'{}' is a view that PyTorch negates, which cannot be written", name),
                            "pass a new tensor, such as torch.empty_like(x)"));
  return tensor.attr("resolve_neg")();
}

// Raises ridge.Error for a dtype without kernels.
[[noreturn]] void raise_unsupported_dtype(const std::string& name, nb::handle array, ArrayLibrary library) {
  const std::string dtype = dtype_name(array);
  const std::string of_float = library == ArrayLibrary::torch ? "float()" : "astype(np.float32)";
  const bool is_wide = dtype.find("64") != std::string::npos || dtype.find("float") != std::string::npos;
  raise_error(input_error(fmt::format("'{}' is an array of {}; expected f32, bf16, f16, int8 or int32", name, dtype),
                          is_wide ? fmt::format("pass x.{}", of_float) : ""));
}

// Returns the array, or nullopt if it cannot be read, or cannot be written and `written` is true.
std::optional<nb::ndarray<nb::ro>> import_ndarray(nb::handle array, bool is_written) {
  nb::ndarray<> writable;
  if (is_written && !nb::try_cast(array, writable, false)) return std::nullopt;
  nb::ndarray<nb::ro> out;
  if (!nb::try_cast(array, out, false)) return std::nullopt;
  return out;
}

struct ImportedArray {
  nb::ndarray<nb::ro> array;
  std::optional<DType> dtype;
};

// Imports an array. NumPy has no bf16; arrays of ml_dtypes' bfloat16 are imported as 16-bit integers.
ImportedArray import_array(const std::string& name, nb::handle array, ArrayLibrary library, bool is_written) {
  if (const nb::object capsule = export_dlpack(library, array); capsule.is_valid())
    if (auto exported_array = import_ndarray(capsule, false)) {
      const auto dtype = from_dlpack(exported_array->dtype());
      return {*std::move(exported_array), dtype};
    }
  if (auto direct_array = import_ndarray(array, is_written)) {
    const auto dtype = from_dlpack(direct_array->dtype());
    return {*std::move(direct_array), dtype};
  }
  if (library != ArrayLibrary::torch && dtype_name(array) == "bfloat16")
    if (auto words = import_ndarray(nb::object(array.attr("view")("int16")), is_written))
      return {*std::move(words), DType::bf16};
  raise_not_an_array(name, array, is_written);
}

// Returns the CUDA device number, or nullopt for host memory.
std::optional<int> cuda_device_of(const std::string& name, ArrayLibrary library, int device_type, int device) {
  if (device_type == nb::device::cpu::value) return std::nullopt;
  if (device_type != nb::device::cuda::value)
    raise_error(absent_error(fmt::format("'{}' is on a device (DLPack's type {}); expected a CUDA device or host "
                                         "memory",
                                         name, device_type),
                             "move it to host memory"));
  if (library == ArrayLibrary::numpy)
    raise_error(input_error(fmt::format("'{}' is on a CUDA device; expected an array of PyTorch or CuPy", name),
                            "torch.from_dlpack(x) is a tensor with the same memory"));
  return device;
}

void require_numpy() {
  try {
    (void)nb::module_::import_("numpy");
  } catch (const nb::python_error&) {
    raise_error(absent_error("the result is a NumPy array, but NumPy is not installed",
                             "pip install numpy, or pass an array for the result: out=array"));
  }
}

}  // namespace

namespace {

ArrayLibrary find_library(nb::handle type) {
  const std::string module = nb::cast<std::string>(type.attr("__module__"));
  const auto is_from = [&](const std::string& module_name) {
    return module == module_name || module.starts_with(module_name + ".");
  };
  if (is_from("cupy")) return ArrayLibrary::cupy;
  const nb::dict modules = nb::module_::import_("sys").attr("modules");
  if (!modules.contains("torch") || !nb::hasattr(modules["torch"], "Tensor")) return ArrayLibrary::numpy;
  const int is_tensor = PyObject_IsSubclass(type.ptr(), nb::object(modules["torch"].attr("Tensor")).ptr());
  if (is_tensor < 0) PyErr_Clear();
  return is_tensor == 1 ? ArrayLibrary::torch : ArrayLibrary::numpy;
}

}  // namespace

// The last type is kept with its library, because most calls have arrays of one type.
ArrayLibrary array_library(nb::handle array) {
  static nb::object& last_type = *new nb::object;
  static ArrayLibrary last_library = ArrayLibrary::numpy;
  const nb::handle type = array.type();
  if (last_type.is(type)) return last_library;
  last_library = find_library(type);
  last_type = nb::borrow(type);
  return last_library;
}

ArrayOperand::ArrayOperand(std::string name, nb::handle array, bool is_written)
    : name_(std::move(name)), library_(array_library(array)), dtype_(DType::f32) {
  if (library_ == ArrayLibrary::torch) owner_ = check_tensor(name_, array, is_written);
  if (!owner_.is_valid() || !read_tensor(owner_)) read_array(owner_.is_valid() ? owner_ : array, is_written);
}

bool ArrayOperand::read_tensor(nb::handle tensor) {
  const auto view = view_tensor(tensor);
  if (!view) return false;
  device_ = cuda_device_of(name_, library_, view->device.device_type, view->device.device_id);
  const auto dtype = from_dlpack(view->dtype);
  if (!dtype) raise_unsupported_dtype(name_, tensor, library_);
  dtype_ = *dtype;
  data_ = static_cast<const std::byte*>(view->data) + view->byte_offset;
  shape_.assign(view->shape, view->shape + view->ndim);
  strides_.assign(view->strides, view->strides + view->ndim);
  return true;
}

void ArrayOperand::read_array(nb::handle array, bool is_written) {
  ImportedArray found = import_array(name_, array, library_, is_written);
  array_ = std::move(found.array);
  device_ = cuda_device_of(name_, library_, array_.device_type(), array_.device_id());
  if (!found.dtype) raise_unsupported_dtype(name_, array, library_);
  dtype_ = *found.dtype;
  data_ = array_.data();
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    shape_.push_back(static_cast<std::int64_t>(array_.shape(axis)));
    strides_.push_back(array_.stride(axis));
  }
}

std::optional<ArrayView> view_host_tensor(nb::handle array) {
  if (array_library(array) != ArrayLibrary::torch || has_derivative(array) || is_negated(array)) return std::nullopt;
  const auto view = view_tensor(array);
  if (!view || view->device.device_type != nb::device::cpu::value) return std::nullopt;
  const auto dtype = from_dlpack(view->dtype);
  if (!dtype) return std::nullopt;
  const auto rank = static_cast<std::size_t>(view->ndim);
  return ArrayView{
      static_cast<std::byte*>(view->data) + view->byte_offset, *dtype, {view->shape, rank}, {view->strides, rank}};
}

NewArray::NewArray(ArrayType type) : type_(std::move(type)) {
  std::size_t bytes = dtype_bits(type_.dtype) / 8;
  for (const std::int64_t extent : type_.shape) bytes *= static_cast<std::size_t>(extent);
  data_ = allocate_memory(bytes);
  if (data_ == nullptr)
    raise_error(input_error(fmt::format("out of memory: cannot allocate {} B for '{}'", bytes, type_.name)));
}

NewArray::~NewArray() { std::free(data_); }

nb::object NewArray::release_array(ArrayLibrary library) {
  const bool as_int16 = type_.dtype == DType::bf16 && library == ArrayLibrary::numpy;
  const nb::dlpack::dtype dtype = to_dlpack_dtype(as_int16 ? DType::int16 : type_.dtype);
  void* const data = std::exchange(data_, nullptr);
  if (library == ArrayLibrary::torch)
    if (nb::object tensor = make_tensor(data, dtype, type_.shape); tensor.is_valid()) return tensor;
  const nb::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  const std::vector<std::size_t> shape(type_.shape.begin(), type_.shape.end());
  if (library == ArrayLibrary::torch)
    return nb::cast(nb::ndarray<nb::pytorch>(data, shape.size(), shape.data(), owner, nullptr, dtype));
  require_numpy();
  nb::object out = nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, dtype));
  return as_int16 ? nb::module_::import_("ridge._html").attr("as_bf16")(out) : out;
}

}  // namespace ridge::python
