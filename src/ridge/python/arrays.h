// Arrays of NumPy, PyTorch and whatever else speaks DLPack or the buffer protocol, as the library sees them: without a
// copy.
#pragma once

#include <nanobind/ndarray.h>

#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/python/door.h"

namespace ridge::python {

// An operand of a call. It keeps the memory alive as long as it lives.
class Operand {
 public:
  // Raises ridge.Error: no array, on a device, of a dtype that ridge has not, `written` and read-only.
  Operand(const std::string& name, nanobind::handle array, bool written = false);

  ArrayView view() const;
  ArrayType type(const std::string& name) const { return {name, dtype_, shape_}; }

 private:
  nanobind::ndarray<nanobind::ro> array_;
  DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// Whose arrays results are: those of the first operand.
enum class House { numpy, torch };
House house_of(nanobind::handle array);

// Memory for a result, and the array around it.
class NewArray {
 public:
  NewArray(const ArrayType& type);
  ArrayView view() const { return {data_, type_.dtype, type_.shape, {}}; }
  nanobind::object take(House house);  // once

 private:
  ArrayType type_;
  void* data_;
  nanobind::capsule owner_;
};

}  // namespace ridge::python
