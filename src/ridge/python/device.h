// Arrays on a CUDA device, with the current stream and the allocator of their library, PyTorch or CuPy. All memory of a
// call comes from this allocator, so the library's CUDA graphs may capture the call.
#pragma once

#include <optional>
#include <string>

#include "ridge/python/arrays.h"

namespace ridge::python {

// Returns the DLPack capsule of an array, for work on its library's current stream. PyTorch's export takes no stream;
// CuPy is passed its current one. Returns an empty object for other libraries and if the export fails.
nanobind::object export_dlpack(ArrayLibrary library, nanobind::handle array);

class ArrayDevice {
 public:
  // `operand` must be on a device. Raises ridge.Error if CuPy's current device is another.
  ArrayDevice(const ArrayOperand& operand, nanobind::handle array);

  int number() const { return number_; }
  CUstream_st* stream() const;  // The library's current stream
  nanobind::object allocate_array(const ArrayType& type) const;
  void* address_of(nanobind::handle array) const;
  nanobind::object copy_row_major(nanobind::handle array) const;
  void copy_array(nanobind::handle to, nanobind::handle from) const;

 private:
  ArrayLibrary library_;
  int number_;
  DType dtype_;
  nanobind::object prototype_;
};

}  // namespace ridge::python
