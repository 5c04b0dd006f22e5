// Reads and makes PyTorch tensors through DLPack's exchange API, a table of C functions that PyTorch has from 2.10 on.
// It takes a tenth of the host time of DLPack's capsules.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>
#include <span>

#include "ridge/python/module.h"

namespace ridge::python {

// Returns a view of the tensor's memory, valid until the tensor is released; its shape and strides belong to the
// tensor. Returns nullopt if PyTorch is too old or the tensor has no memory of its own, as fake and batched tensors do.
std::optional<nanobind::dlpack::dltensor> view_tensor(nanobind::handle tensor);

// Returns a tensor in host memory that frees `data` at its end, or an empty object if PyTorch is too old.
nanobind::object make_tensor(void* data, nanobind::dlpack::dtype dtype, std::span<const std::int64_t> shape);

// True if the tensor requires a gradient that is recorded, or has a tangent of forward mode.
bool has_derivative(nanobind::handle tensor);

// True for a view of a complex tensor that PyTorch negates when it reads it, such as x.conj().imag.
bool is_negated(nanobind::handle tensor);

}  // namespace ridge::python
