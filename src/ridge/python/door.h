// The door of Python: what its sources share. Each registers its part of the module `ridge._ridge`; python/ridge holds
// what is better said in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "ridge/ridge.h"

namespace ridge::python {

void add_reports(nanobind::module_& module);
void add_sweeps(nanobind::module_& module);
void add_arrays(nanobind::module_& module);
void add_geglu(nanobind::module_& module);
void add_attention(nanobind::module_& module);

// Raises ridge.Error with the error's kind, message, hint, place and whole text.
[[noreturn]] void raise(const Error& error);

template <class T> T value_of(Result<T>&& result) {
  if (!result) raise(result.error());
  return *std::move(result);
}
inline void check(const Status& status) {
  if (!status) raise(status.error());
}

// None: what stands for nothing said.
std::optional<DType> dtype_of(const std::optional<std::string>& spelling);

}  // namespace ridge::python
