#include "ridge/python/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::uintptr_t array_alignment = 16;  // Alignment in bytes that device kernels require

std::string describe_device(const ArrayOperand& operand) {
  return operand.device() ? fmt::format("on CUDA device {}", *operand.device()) : "in host memory";
}

const char* library_name(const ArrayOperand& operand) {
  return operand.library() == ArrayLibrary::cupy ? "CuPy" : "PyTorch";
}

}  // namespace

void ArrayCall::add_input(const std::string& name, nb::handle array) {
  ArrayOperand operand(name, array);
  if (inputs_.empty() && operand.device()) device_.emplace(operand, array);
  if (!inputs_.empty()) check_device(operand);
  arrays_.push_back(operand.tensor().is_valid() ? operand.tensor() : nb::borrow(array));
  inputs_.push_back(std::move(operand));
}

void ArrayCall::check_device(const ArrayOperand& operand) const {
  const ArrayOperand& first = inputs_.front();
  if (operand.device() != first.device())
    raise_error(input_error(fmt::format("'{}' is {} and '{}' is {}; expected all arrays on one device", first.name(),
                                        describe_device(first), operand.name(), describe_device(operand)),
                            fmt::format("move '{}' to the device of '{}'", operand.name(), first.name())));
  if (operand.device() && operand.library() != first.library())
    raise_error(
        input_error(fmt::format("'{}' is an array of {} and '{}' of {}; on a device, expected arrays of one library, "
                                "whose current stream is used",
                                first.name(), library_name(first), operand.name(), library_name(operand)),
                    "torch.from_dlpack(x) and cupy.from_dlpack(x) convert arrays without a copy"));
}

ArrayView ArrayCall::device_view(std::size_t i, bool (*can_read)(const ArrayView&)) {
  ArrayView view = inputs_[i].view();
  if (can_read(view)) return view;
  temporaries_.push_back(device_->copy_row_major(arrays_[i]));
  view.data = device_->address_of(temporaries_.back());
  view.strides = {};
  return view;
}

void* ArrayCall::allocate_scratch(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  temporaries_.push_back(device_->allocate_array({"scratch", DType::int8, {bytes}}));
  return device_->address_of(temporaries_.back());
}

// Adds a new array for a result. If `given` is a misaligned array of the caller, the result is copied into it later.
void ArrayCall::add_new_on_device(const ArrayType& type, nb::handle given) {
  CallResult& result = *results_.back();
  result.array = device_->allocate_array(type);
  if (!given.is_none()) result.copy_to = nb::borrow(given);
  views_.push_back({device_->address_of(result.array), type.dtype, result.type.shape, {}});
}

void ArrayCall::add_result(const ArrayType& type, nb::handle given) {
  results_.push_back(std::make_unique<CallResult>(CallResult{.type = type}));
  CallResult& result = *results_.back();
  if (!given.is_none()) {
    result.given = std::make_unique<ArrayOperand>(type.name, given, true);
    check_device(*result.given);
    const ArrayView view = result.given->view();
    const bool has_type = view.dtype == type.dtype &&
                          std::equal(view.shape.begin(), view.shape.end(), type.shape.begin(), type.shape.end());
    if (device_ && has_type && reinterpret_cast<std::uintptr_t>(view.data) % array_alignment != 0)
      return add_new_on_device(type, given);
    result.array = nb::borrow(given);
    views_.push_back(view);
  } else if (device_) {
    add_new_on_device(type, given);
  } else {
    result.allocated = std::make_unique<NewArray>(type);
    views_.push_back(result.allocated->view());
  }
}

nb::object ArrayCall::release_result(std::size_t i) {
  CallResult& result = *results_[i];
  if (result.allocated) return result.allocated->release_array(inputs_.front().library());
  if (!result.copy_to.is_valid()) return result.array;
  device_->copy_array(result.copy_to, result.array);
  return result.copy_to;
}

}  // namespace ridge::python
