// Arrays of NumPy, PyTorch, CuPy and whatever else speaks DLPack or the buffer protocol, as the library sees them:
// without a copy.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/python/door.h"

namespace ridge::python {

// Whose arrays results are: those of the first operand. Arrays on a device are PyTorch's or CuPy's, for a library's
// current stream and its allocator are nowhere in DLPack.
enum class House { numpy, torch, cupy };
House house_of(nanobind::handle array);

// An operand of a call. It keeps the memory alive as long as it lives.
class Operand {
 public:
  // Raises ridge.Error: no array, on a device that is none of CUDA's, of a dtype that ridge has not, `written` and
  // read-only.
  Operand(const std::string& name, nanobind::handle array, bool written = false);

  const std::string& name() const { return name_; }
  House house() const { return house_; }
  std::optional<int> device() const { return device_; }  // CUDA's number; none: this computer's memory
  ArrayView view() const;
  ArrayType type(const std::string& name) const { return {name, dtype_, shape_}; }

 private:
  std::string name_;
  House house_;
  std::optional<int> device_ = {};
  nanobind::ndarray<nanobind::ro> array_;
  DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// Memory of this computer's for a result, and the array around it.
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
