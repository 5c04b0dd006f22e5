// Arrays on a CUDA device: the current stream and the memory of the library that they belong to, PyTorch or CuPy. All
// memory of a call comes from its allocator, so that the library's CUDA graphs may capture the call.
#pragma once

#include <optional>
#include <string>

#include "ridge/python/arrays.h"

namespace ridge::python {

// DLPack's capsule of an array, for work on its library's current stream: PyTorch asks for none, and what CuPy makes
// wait is what it is told. Nothing: the array's library is none of the two, or makes no capsule of it.
nanobind::object exported(House house, nanobind::handle array);

class Device {
 public:
  // Of an operand that lies on one. Raises ridge.Error: CuPy's current device is another.
  Device(const Operand& operand, nanobind::handle array);

  int number() const { return number_; }
  CUstream_st* stream() const;  // the library's current one
  nanobind::object empty(const ArrayType& type) const;
  void* address_of(nanobind::handle array) const;
  nanobind::object copied(nanobind::handle array) const;  // row-major, in memory of its own
  void copy(nanobind::handle to, nanobind::handle from) const;

 private:
  House house_;
  int number_;
  DType dtype_;
  nanobind::object like_;
};

}  // namespace ridge::python
