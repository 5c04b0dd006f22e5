// The arrays of one call and where its results go: to those that the caller gave, or to new ones of the first input's
// library and place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridge/python/arrays.h"
#include "ridge/python/device.h"

namespace ridge::python {

class Call {
 public:
  // Raises ridge.Error: as Operand does; an array that lies elsewhere than the first one.
  void add_input(const std::string& name, nanobind::handle array);
  const std::vector<Operand>& inputs() const { return inputs_; }
  const std::optional<Device>& device() const { return device_; }  // none: this computer's memory

  // Where kernels of a device read it: a copy of what they do not read where it lies.
  ArrayView on_device(std::size_t i, bool (*reads)(const ArrayView&));
  // So much of the device's memory until the call ends.
  void* scratch(std::int64_t bytes);

  // `given`: the caller's array, or None.
  void add_result(const ArrayType& type, nanobind::handle given);
  const std::vector<ArrayView>& views() const { return views_; }
  nanobind::object result(std::size_t i);  // once, when it is written

 private:
  void check_place(const Operand& operand) const;
  void add_new_on_device(const ArrayType& type, nanobind::handle given);

  struct Result {
    ArrayType type;
    std::unique_ptr<NewArray> made = {};   // in this computer's memory
    std::unique_ptr<Operand> given = {};   // the caller's array
    nanobind::object array = {}, to = {};  // what is returned; `to`: what it is copied to and returned instead
  };
  std::vector<Operand> inputs_;
  std::vector<nanobind::object> arrays_, held_;  // of the inputs; copies and scratch
  std::optional<Device> device_;
  std::vector<std::unique_ptr<Result>> results_;
  std::vector<ArrayView> views_;
};

}  // namespace ridge::python
