#include "ridge/python/arrays.h"

#include "ridge/python/device.h"

#include <nanobind/stl/string.h>

#include <fmt/format.h>

#include <cstdlib>

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::size_t alignment = 64;

std::optional<DType> of_dlpack(const nb::dlpack::dtype& dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
  for (const DTypeInfo& info : dtypes) {
    if (info.dtype == DType::tf32 || info.bits != dtype.bits) continue;
    const bool is_bf16 = info.dtype == DType::bf16;
    if (code == nb::dlpack::dtype_code::Bfloat && is_bf16) return info.dtype;
    if (code == nb::dlpack::dtype_code::Float && !info.integer && info.bits >= 16 && !is_bf16) return info.dtype;
    if (code == nb::dlpack::dtype_code::Int && info.integer) return info.dtype;
  }
  return std::nullopt;
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  auto code = info(dtype).integer ? nb::dlpack::dtype_code::Int : nb::dlpack::dtype_code::Float;
  if (dtype == DType::bf16) code = nb::dlpack::dtype_code::Bfloat;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits(dtype)), 1};
}

std::string dtype_text(nb::handle array) {
  if (!nb::hasattr(array, "dtype")) return nb::cast<std::string>(nb::str(array.type()));
  const nb::object dtype = array.attr("dtype");
  return nb::cast<std::string>(nb::str(nb::handle(dtype)));
}

[[noreturn]] void raise_no_array(const std::string& name, nb::handle array, bool written) {
  if (nb::hasattr(array, "shape"))
    raise(input_error(fmt::format(
        "'{}' is an array of {} that cannot be {}", name, dtype_text(array),
        written ? "written through DLPack or the buffer protocol" : "read through DLPack or the buffer protocol")));
  raise(input_error(
      fmt::format("expected an array for '{}', found {}", name, nb::cast<std::string>(nb::str(array.type())))));
}

void check_gradient(const std::string& name, nb::handle array) {
  if (!nb::cast<bool>(nb::getattr(array, "requires_grad", nb::bool_(false)))) return;
  if (!nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")())) return;
  raise(input_error(fmt::format("'{}' requires a gradient, which would be lost here", name),
                    "pass x.detach(), or call the operators of ridge.torch, which have gradients"));
}

// The array, or nothing: it cannot be read, or not written where that is asked for.
std::optional<nb::ndarray<nb::ro>> read_from(nb::handle array, bool written) {
  nb::ndarray<> writable;
  if (written && !nb::try_cast(array, writable, false)) return std::nullopt;
  nb::ndarray<nb::ro> out;
  if (!nb::try_cast(array, out, false)) return std::nullopt;
  return out;
}

struct Imported {
  nb::ndarray<nb::ro> array;
  std::optional<DType> dtype;
};

// NumPy has no bf16 of its own: ml_dtypes' lies in memory as 16-bit words and is exchanged so.
Imported imported(const std::string& name, nb::handle array, House house, bool written) {
  if (house == House::torch) check_gradient(name, array);
  if (const nb::object capsule = exported(house, array); capsule.is_valid())
    if (auto there = read_from(capsule, false)) {
      const auto dtype = of_dlpack(there->dtype());
      return {*std::move(there), dtype};
    }
  if (auto direct = read_from(array, written)) {
    const auto dtype = of_dlpack(direct->dtype());
    return {*std::move(direct), dtype};
  }
  if (house != House::torch && dtype_text(array) == "bfloat16")
    if (auto words = read_from(nb::object(array.attr("view")("int16")), written))
      return {*std::move(words), DType::bf16};
  raise_no_array(name, array, written);
}

// CUDA's number of the device; nothing: this computer's memory.
std::optional<int> device_of(const std::string& name, House house, const nb::ndarray<nb::ro>& array) {
  if (array.device_type() == nb::device::cpu::value) return std::nullopt;
  if (array.device_type() != nb::device::cuda::value)
    raise(absent_error(fmt::format("'{}' lies on a device (DLPack's type {}); expected a CUDA device or this "
                                   "computer's memory",
                                   name, array.device_type()),
                       "move it to this computer's memory"));
  if (house == House::numpy)
    raise(input_error(fmt::format("'{}' lies on a CUDA device; expected an array of PyTorch's or CuPy's there", name),
                      "torch.from_dlpack(x) is the same memory as a tensor"));
  return array.device_id();
}

void check_numpy() {
  try {
    (void)nb::module_::import_("numpy");
  } catch (const nb::python_error&) {
    raise(absent_error("the result is an array of NumPy's, which is not installed",
                       "pip install numpy, or pass a place for the result: out=array"));
  }
}

}  // namespace

House house_of(nb::handle array) {
  const nb::handle type = array.type();
  const std::string module = nb::cast<std::string>(type.attr("__module__"));
  const auto is = [&](const std::string& house) { return module == house || module.starts_with(house + "."); };
  if (is("torch")) return House::torch;
  return is("cupy") ? House::cupy : House::numpy;
}

Operand::Operand(const std::string& name, nb::handle array, bool written)
    : name_(name), house_(house_of(array)), dtype_(DType::f32) {
  Imported found = imported(name, array, house_, written);
  array_ = std::move(found.array);
  device_ = device_of(name, house_, array_);
  if (!found.dtype)
    raise(input_error(
        fmt::format("'{}' is an array of {}; expected f32, bf16, f16, int8 or int32", name, dtype_text(array))));
  dtype_ = *found.dtype;
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    shape_.push_back(static_cast<std::int64_t>(array_.shape(axis)));
    strides_.push_back(array_.stride(axis));
  }
}

ArrayView Operand::view() const { return {const_cast<void*>(array_.data()), dtype_, shape_, strides_}; }

NewArray::NewArray(const ArrayType& type) : type_(type) {
  std::size_t bytes = static_cast<std::size_t>(bits(type.dtype) / 8);
  for (const std::int64_t extent : type.shape) bytes *= static_cast<std::size_t>(extent);
  data_ = std::aligned_alloc(alignment, (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment);
  if (data_ == nullptr) raise(input_error(fmt::format("the system refused {} B of memory for '{}'", bytes, type.name)));
  owner_ = nb::capsule(data_, [](void* data) noexcept { std::free(data); });
}

nb::object NewArray::take(House house) {
  std::vector<std::size_t> shape(type_.shape.begin(), type_.shape.end());
  const bool as_words = type_.dtype == DType::bf16 && house == House::numpy;
  const nb::dlpack::dtype dtype = dlpack_of(as_words ? DType::int16 : type_.dtype);
  if (house == House::torch)
    return nb::cast(nb::ndarray<nb::pytorch>(data_, shape.size(), shape.data(), owner_, nullptr, dtype));
  check_numpy();
  nb::object out = nb::cast(nb::ndarray<nb::numpy>(data_, shape.size(), shape.data(), owner_, nullptr, dtype));
  return as_words ? nb::module_::import_("ridge._html").attr("as_bf16")(out) : out;
}

}  // namespace ridge::python
