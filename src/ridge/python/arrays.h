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
  ArrayOperand(std::string name, nanobind::handle array, bool is_written = false);

  const std::string& name() const { return name_; }
  // The tensor whose memory is used, which may be a copy; an empty object for other libraries.
  const nanobind::object& tensor() const { return owner_; }
  ArrayLibrary library() const { return library_; }
  std::optional<int> device() const { return device_; }  // CUDA device number; nullopt for host memory
  ArrayView view() const { return {const_cast<void*>(data_), dtype_, shape_, strides_}; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  ArrayType type(const std::string& name) const { return {name, dtype_, shape_}; }

 private:
  // True if the array is a tensor that was read through the exchange API.
  bool read_tensor(nanobind::handle tensor);
  void read_array(nanobind::handle array, bool is_written);

  std::string name_;
  ArrayLibrary library_;
  std::optional<int> device_ = {};
  nanobind::object owner_;  // PyTorch's tensor; keeps the memory alive
  nanobind::ndarray<nanobind::ro> array_;
  const void* data_ = nullptr;
  DType dtype_;
  std::vector<std::int64_t> shape_, strides_;
};

// Returns the view of an array that takes little time to read: a PyTorch tensor in host memory without derivatives and
// of a supported dtype. Its shape and strides belong to the tensor. Returns nullopt for all others.
std::optional<ArrayView> view_host_tensor(nanobind::handle array);

// Host memory for a result, and its array.
class NewArray {
 public:
  explicit NewArray(ArrayType type);
  ~NewArray();
  NewArray(const NewArray&) = delete;
  NewArray& operator=(const NewArray&) = delete;
  ArrayView view() const { return {data_, type_.dtype, type_.shape, {}}; }
  nanobind::object release_array(ArrayLibrary library);  // Call only once

 private:
  ArrayType type_;
  void* data_;
};

}  // namespace ridge::python
