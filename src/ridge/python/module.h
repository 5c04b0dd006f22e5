// Shared declarations of the extension module `ridge._ridge`. Each source file registers its part; python/ridge has the
// functions written in Python.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

#include "ridge/ridge.h"

namespace ridge::python {

void add_reports(nanobind::module_& module);
void add_sweeps(nanobind::module_& module);
void add_array_functions(nanobind::module_& module);
void add_matmul(nanobind::module_& module);
void add_softmax(nanobind::module_& module);
void add_layers(nanobind::module_& module);
void add_geglu(nanobind::module_& module);
void add_attention(nanobind::module_& module);
void add_xla_calls(nanobind::module_& module);

// Raises ridge.Error with the error's kind, message, hint, position and full text.
[[noreturn]] void raise_error(const Error& error);

template <class T> T value_or_raise(Result<T>&& result) {
  if (!result) raise_error(result.error());
  return *std::move(result);
}
inline void check_status(const Status& status) {
  if (!status) raise_error(status.error());
}

// Returns a number of threads, 0 for every core. Raises ridge.Error for objects that are none.
int parse_threads(nanobind::handle threads);

// Parses a dtype; returns nullopt for None.
std::optional<DType> parse_optional_dtype(const std::optional<std::string>& text);

}  // namespace ridge::python
