#include "ridge/python/device.h"

#include <nanobind/stl/string.h>

#include <fmt/format.h>

#include <atomic>

namespace nb = nanobind;
using namespace nb::literals;

namespace ridge::python {
namespace {

// Returns an object that is looked up once and never released. Takes no lock, because the look-up may release the GIL.
template <class Find> nb::handle cached_object(std::atomic<PyObject*>& slot, const Find& find) {
  if (slot == nullptr) slot = nb::object(find()).release().ptr();
  return slot.load();
}
nb::handle torch_module() {
  static std::atomic<PyObject*> slot = nullptr;
  return cached_object(slot, [] { return nb::module_::import_("torch"); });
}
nb::handle cupy_module() {
  static std::atomic<PyObject*> slot = nullptr;
  return cached_object(slot, [] { return nb::module_::import_("cupy"); });
}
nb::handle torch_to_dlpack() {
  static std::atomic<PyObject*> slot = nullptr;
  return cached_object(slot, [] { return nb::module_::import_("torch.utils.dlpack").attr("to_dlpack"); });
}
nb::handle torch_current_stream() {
  static std::atomic<PyObject*> slot = nullptr;
  return cached_object(slot, [] { return torch_module().attr("cuda").attr("current_stream"); });
}

std::uintptr_t current_stream(ArrayLibrary library, int device) {
  if (library == ArrayLibrary::torch)
    return nb::cast<std::uintptr_t>(nb::object(torch_current_stream()(device).attr("cuda_stream")));
  return nb::cast<std::uintptr_t>(nb::object(cupy_module().attr("cuda").attr("get_current_stream")().attr("ptr")));
}

const char* framework_dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::int32: return "int32";
    default: return "int8";
  }
}

nb::tuple to_tuple(const std::vector<std::int64_t>& shape) {
  nb::list out;
  for (const std::int64_t extent : shape) out.append(extent);
  return nb::tuple(out);
}

}  // namespace

nb::object export_dlpack(ArrayLibrary library, nb::handle array) {
  try {
    if (library == ArrayLibrary::torch) return torch_to_dlpack()(array);
    if (library == ArrayLibrary::numpy) return {};
    const std::uintptr_t stream = current_stream(library, 0);
    return array.attr("__dlpack__")("stream"_a = stream == 0 ? 1 : stream);  // In DLPack, 1 is the default stream
  } catch (const nb::python_error&) {
    return {};
  }
}

ArrayDevice::ArrayDevice(const ArrayOperand& operand, nb::handle array)
    : library_(operand.library()),
      number_(*operand.device()),
      dtype_(operand.view().dtype),
      prototype_(nb::borrow(array)) {
  if (library_ != ArrayLibrary::cupy) return;
  const int current = nb::cast<int>(nb::object(cupy_module().attr("cuda").attr("runtime").attr("getDevice")()));
  if (current != number_)
    raise_error(input_error(fmt::format("'{}' is on CUDA device {}, but CuPy's current device is {}; expected the same",
                                        operand.name(), number_, current),
                            fmt::format("with cupy.cuda.Device({}):", number_)));
}

CUstream_st* ArrayDevice::stream() const { return reinterpret_cast<CUstream_st*>(current_stream(library_, number_)); }

nb::object ArrayDevice::allocate_array(const ArrayType& type) const {
  const nb::tuple shape = to_tuple(type.shape);
  if (library_ == ArrayLibrary::cupy) {
    if (type.dtype == dtype_) return cupy_module().attr("empty")(shape, prototype_.attr("dtype"));
    return cupy_module().attr("empty")(shape, framework_dtype_name(type.dtype));
  }
  if (type.dtype == dtype_) return prototype_.attr("new_empty")(shape);
  return prototype_.attr("new_empty")(shape, "dtype"_a = torch_module().attr(framework_dtype_name(type.dtype)));
}

void* ArrayDevice::address_of(nb::handle array) const {
  const nb::object address = library_ == ArrayLibrary::cupy ? nb::object(array.attr("data").attr("ptr"))
                                                            : nb::object(array.attr("data_ptr")());
  return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(address));
}

nb::object ArrayDevice::copy_row_major(nb::handle array) const {
  if (library_ == ArrayLibrary::cupy) return array.attr("copy")("order"_a = "C");
  return array.attr("clone")("memory_format"_a = torch_module().attr("contiguous_format"));
}

void ArrayDevice::copy_array(nb::handle to, nb::handle from) const {
  if (library_ == ArrayLibrary::cupy)
    to.attr("__setitem__")(nb::ellipsis(), from);
  else
    to.attr("copy_")(from);
}

}  // namespace ridge::python
