// The arrays of one call. Results are written to the caller's arrays or to new arrays, which have the library and
// device of the first input.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridge/python/arrays.h"
#include "ridge/python/device.h"

namespace ridge::python {

class ArrayCall {
 public:
  // Raises ridge.Error as `ArrayOperand` does, and for an array on another device than the first.
  void add_input(const std::string& name, nanobind::handle array);
  const std::vector<ArrayOperand>& inputs() const { return inputs_; }
  const std::optional<ArrayDevice>& device() const {
    return device_;
  }  // CUDA device of the arrays; nullopt for host memory

  // Returns input i for device kernels, copied if they cannot read its layout.
  ArrayView device_view(std::size_t i, bool (*can_read)(const ArrayView&));
  // Allocates device memory that is freed at the end of the call.
  void* allocate_scratch(std::int64_t bytes);

  // Adds a result. `given` is the caller's array or None.
  void add_result(const ArrayType& type, nanobind::handle given);
  const std::vector<ArrayView>& output_views() const { return views_; }
  nanobind::object release_result(std::size_t i);  // Call once, after it is written

 private:
  void check_device(const ArrayOperand& operand) const;
  void add_new_on_device(const ArrayType& type, nanobind::handle given);

  struct CallResult {
    ArrayType type;
    std::unique_ptr<NewArray> allocated = {};   // New array in host memory
    std::unique_ptr<ArrayOperand> given = {};   // The caller's array
    nanobind::object array = {}, copy_to = {};  // Result; copied into `copy_to`, if that is set
  };
  std::vector<ArrayOperand> inputs_;
  std::vector<nanobind::object> arrays_, temporaries_;  // Input arrays; copies and scratch memory
  std::optional<ArrayDevice> device_;
  std::vector<std::unique_ptr<CallResult>> results_;
  std::vector<ArrayView> views_;
};

}  // namespace ridge::python
