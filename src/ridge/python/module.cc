#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "ridge/python/door.h"

namespace nb = nanobind;

namespace ridge::python {

void raise(const Error& error) {
  const nb::object type = nb::module_::import_("ridge._error").attr("Error");
  const nb::object raised = type(static_cast<int>(error.kind), error.message, error.hint, error.source, error.span.line,
                                 error.span.column, error.text());
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw nb::python_error();
}

std::optional<DType> dtype_of(const std::optional<std::string>& spelling) {
  if (!spelling) return std::nullopt;
  if (const auto dtype = dtype_from(*spelling)) return dtype;
  raise(usage_error(fmt::format("expected a dtype such as bf16, f32 or int8, found '{}'", *spelling)));
}

}  // namespace ridge::python

NB_MODULE(_ridge, module) {
  module.attr("__version__") = std::string(ridge::version());
  ridge::python::add_reports(module);
  ridge::python::add_sweeps(module);
  ridge::python::add_arrays(module);
  ridge::python::add_geglu(module);
  ridge::python::add_attention(module);
}
