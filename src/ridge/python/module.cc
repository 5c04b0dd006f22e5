#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <limits>

#include "ridge/python/module.h"

namespace nb = nanobind;

namespace ridge::python {

void raise_error(const Error& error) {
  const nb::module_ errors = nb::module_::import_("ridge._error");
  const nb::object raised =
      errors.attr("from_library")(static_cast<int>(error.kind), error.message, error.hint, error.source,
                                  error.span.line, error.span.column, error.to_string());
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
  throw nb::python_error();
}

int parse_threads(nb::handle threads) {
  if (PyLong_CheckExact(threads.ptr())) {
    const long count = PyLong_AsLong(threads.ptr());
    if (count >= 0 && count <= std::numeric_limits<int>::max()) return static_cast<int>(count);
    PyErr_Clear();
  }
  return nb::cast<int>(nb::module_::import_("ridge._sizes").attr("check_threads")(threads));
}

std::optional<DType> parse_optional_dtype(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  if (const auto dtype = parse_dtype(*text)) return dtype;
  raise_error(usage_error(fmt::format("expected a dtype such as bf16, f32 or int8, found '{}'", *text)));
}

}  // namespace ridge::python

NB_MODULE(_ridge, module) {
  // PyTorch keeps operators, and through them cached reports, until the process ends.
  nanobind::set_leak_warnings(false);
  module.attr("__version__") = std::string(ridge::version());
  ridge::python::add_reports(module);
  ridge::python::add_sweeps(module);
  ridge::python::add_array_functions(module);
  ridge::python::add_matmul(module);
  ridge::python::add_softmax(module);
  ridge::python::add_layers(module);
  ridge::python::add_geglu(module);
  ridge::python::add_attention(module);
  ridge::python::add_xla_calls(module);
}
