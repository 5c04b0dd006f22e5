// Zero-copy access to arrays of NumPy, PyTorch, CuPy and other libraries that support DLPack or the buffer protocol.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <vector>

#include "ridge/compute.h"
#include "ridge/python/module.h"

namespace ridge::python {

// Library of an array. Results belong to the library of the first operand. Arrays on a device must be PyTorch's or
// CuPy's, because DLPack does not provide a library's current stream and allocator.
enum class ArrayLibrary { numpy, torch, cupy };
ArrayLibrary array_library(nanobind::handle array);

// Operand of a call; keeps its memory alive.
class ArrayOperand {
 public:
  // Raises ridge.Error for an object that is not an array, a device other than CUDA, an unsupported dtype, or a
  // read-only array if `is_written`.
  ArrayOperand(const std::string& name, nanobind::handle array, bool is_written = false);

  const std::string& name() const { return name_; }
  ArrayLibrary library() const { return library_; }
  std::optional<int> device() const { return device_; }  // CUDA device number; nullopt for host memory
  ArrayView view() const;
  ArrayType type(const std::string& name) const { return {name, dtype_, shape_}; }

 private:
  std::string name_;
  ArrayLibrary library_;
  std::optional<int> device_ = {};
  nanobind::ndarray<nanobind::ro> array_;
  DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// Host memory for a result, and its array.
class NewArray {
 public:
  NewArray(const ArrayType& type);
  ArrayView view() const { return {data_, type_.dtype, type_.shape, {}}; }
  nanobind::object release_array(ArrayLibrary library);  // Call only once

 private:
  ArrayType type_;
  void* data_;
  nanobind::capsule owner_;
};

}  // namespace ridge::python
