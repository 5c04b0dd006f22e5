#include "ridge/python/device.h"

#include <nanobind/stl/string.h>

#include <fmt/format.h>

#include <atomic>

namespace nb = nanobind;
using namespace nb::literals;

namespace ridge::python {
namespace {

// Looked up once: what is kept here lives as long as the interpreter. No lock: who looks meanwhile may let go of
// Python's.
template <class Look> nb::handle kept(std::atomic<PyObject*>& place, const Look& look) {
  if (place == nullptr) place = nb::object(look()).release().ptr();
  return place.load();
}
nb::handle torch() {
  static std::atomic<PyObject*> place = nullptr;
  return kept(place, [] { return nb::module_::import_("torch"); });
}
nb::handle cupy() {
  static std::atomic<PyObject*> place = nullptr;
  return kept(place, [] { return nb::module_::import_("cupy"); });
}
nb::handle to_dlpack() {
  static std::atomic<PyObject*> place = nullptr;
  return kept(place, [] { return nb::module_::import_("torch.utils.dlpack").attr("to_dlpack"); });
}
nb::handle current_stream_of_torch() {
  static std::atomic<PyObject*> place = nullptr;
  return kept(place, [] { return torch().attr("cuda").attr("current_stream"); });
}

std::uintptr_t current_stream(House house, int device) {
  if (house == House::torch)
    return nb::cast<std::uintptr_t>(nb::object(current_stream_of_torch()(device).attr("cuda_stream")));
  return nb::cast<std::uintptr_t>(nb::object(cupy().attr("cuda").attr("get_current_stream")().attr("ptr")));
}

const char* spelling(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::int32: return "int32";
    default: return "int8";
  }
}

nb::tuple tuple_of(const std::vector<std::int64_t>& shape) {
  nb::list out;
  for (const std::int64_t extent : shape) out.append(extent);
  return nb::tuple(out);
}

}  // namespace

nb::object exported(House house, nb::handle array) {
  try {
    if (house == House::torch) return to_dlpack()(array);
    if (house == House::numpy) return {};
    const std::uintptr_t stream = current_stream(house, 0);
    return array.attr("__dlpack__")("stream"_a = stream == 0 ? 1 : stream);  // DLPack's 1 is the default stream
  } catch (const nb::python_error&) {
    return {};
  }
}

Device::Device(const Operand& operand, nb::handle array)
    : house_(operand.house()), number_(*operand.device()), dtype_(operand.view().dtype), like_(nb::borrow(array)) {
  if (house_ != House::cupy) return;
  const int current = nb::cast<int>(nb::object(cupy().attr("cuda").attr("runtime").attr("getDevice")()));
  if (current != number_)
    raise(input_error(fmt::format("'{}' lies on CUDA device {}, and CuPy's current device is {}; expected one",
                                  operand.name(), number_, current),
                      fmt::format("with cupy.cuda.Device({}):", number_)));
}

CUstream_st* Device::stream() const { return reinterpret_cast<CUstream_st*>(current_stream(house_, number_)); }

nb::object Device::empty(const ArrayType& type) const {
  const nb::tuple shape = tuple_of(type.shape);
  if (house_ == House::cupy) {
    if (type.dtype == dtype_) return cupy().attr("empty")(shape, like_.attr("dtype"));
    return cupy().attr("empty")(shape, spelling(type.dtype));
  }
  if (type.dtype == dtype_) return like_.attr("new_empty")(shape);
  return like_.attr("new_empty")(shape, "dtype"_a = torch().attr(spelling(type.dtype)));
}

void* Device::address_of(nb::handle array) const {
  const nb::object address =
      house_ == House::cupy ? nb::object(array.attr("data").attr("ptr")) : nb::object(array.attr("data_ptr")());
  return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(address));
}

nb::object Device::copied(nb::handle array) const {
  if (house_ == House::cupy) return array.attr("copy")("order"_a = "C");
  return array.attr("clone")("memory_format"_a = torch().attr("contiguous_format"));
}

void Device::copy(nb::handle to, nb::handle from) const {
  if (house_ == House::cupy)
    to.attr("__setitem__")(nb::ellipsis(), from);
  else
    to.attr("copy_")(from);
}

}  // namespace ridge::python
