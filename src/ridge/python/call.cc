#include "ridge/python/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::uintptr_t word = 16;  // bytes at which a device's kernels want arrays to begin

std::string place_of(const Operand& operand) {
  return operand.device() ? fmt::format("on CUDA device {}", *operand.device()) : "in this computer's memory";
}

const char* library_of(const Operand& operand) { return operand.house() == House::cupy ? "CuPy" : "PyTorch"; }

}  // namespace

void Call::add_input(const std::string& name, nb::handle array) {
  Operand operand(name, array);
  if (inputs_.empty() && operand.device()) device_.emplace(operand, array);
  if (!inputs_.empty()) check_place(operand);
  inputs_.push_back(std::move(operand));
  arrays_.push_back(nb::borrow(array));
}

void Call::check_place(const Operand& operand) const {
  const Operand& first = inputs_.front();
  if (operand.device() != first.device())
    raise(input_error(fmt::format("'{}' lies {} and '{}' {}; expected all arrays in one place", first.name(),
                                  place_of(first), operand.name(), place_of(operand)),
                      fmt::format("move '{}' to where '{}' lies", operand.name(), first.name())));
  if (operand.device() && operand.house() != first.house())
    raise(
        input_error(fmt::format("'{}' is an array of {}'s and '{}' of {}'s; expected one library's on a device, whose "
                                "current stream the work joins",
                                first.name(), library_of(first), operand.name(), library_of(operand)),
                    "torch.from_dlpack(x) and cupy.from_dlpack(x) are the same memory as the other library's array"));
}

ArrayView Call::on_device(std::size_t i, bool (*reads)(const ArrayView&)) {
  ArrayView view = inputs_[i].view();
  if (reads(view)) return view;
  held_.push_back(device_->copied(arrays_[i]));
  view.data = device_->address_of(held_.back());
  view.strides = {};
  return view;
}

void* Call::scratch(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  held_.push_back(device_->empty({"scratch", DType::int8, {bytes}}));
  return device_->address_of(held_.back());
}

// Where the caller's array begins off the kernels' words, another one is written and copied to it.
void Call::add_new_on_device(const ArrayType& type, nb::handle given) {
  Result& result = *results_.back();
  result.array = device_->empty(type);
  if (!given.is_none()) result.to = nb::borrow(given);
  views_.push_back({device_->address_of(result.array), type.dtype, result.type.shape, {}});
}

void Call::add_result(const ArrayType& type, nb::handle given) {
  results_.push_back(std::make_unique<Result>(Result{.type = type}));
  Result& result = *results_.back();
  if (!given.is_none()) {
    result.given = std::make_unique<Operand>(type.name, given, true);
    check_place(*result.given);
    const ArrayView view = result.given->view();
    const bool fits = view.dtype == type.dtype &&
                      std::equal(view.shape.begin(), view.shape.end(), type.shape.begin(), type.shape.end());
    if (device_ && fits && reinterpret_cast<std::uintptr_t>(view.data) % word != 0)
      return add_new_on_device(type, given);
    result.array = nb::borrow(given);
    views_.push_back(view);
  } else if (device_) {
    add_new_on_device(type, given);
  } else {
    result.made = std::make_unique<NewArray>(type);
    views_.push_back(result.made->view());
  }
}

nb::object Call::result(std::size_t i) {
  Result& result = *results_[i];
  if (result.made) return result.made->take(inputs_.front().house());
  if (!result.to.is_valid()) return result.array;
  device_->copy(result.to, result.array);
  return result.to;
}

}  // namespace ridge::python
