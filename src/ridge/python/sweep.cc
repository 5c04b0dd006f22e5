// Python class of sweeps, and their columns.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ridge/program/ranges.h"
#include "ridge/python/report.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

nb::object to_python_seconds(double value) { return value < 0 ? nb::none() : nb::object(nb::float_(value)); }

void add_point(const Sweep& sweep, const SweepLine& line, std::size_t i, nb::dict& columns) {
  const SweepPoint& point = line.points[i];
  const auto append = [&](const char* column, const nb::object& cell) {
    nb::cast<nb::list>(columns[column]).append(cell);
  };
  append("machine", nb::cast(line.machine));
  append("dtype", nb::cast(line.dtype));
  for (std::size_t range = 0; range < sweep.ranges.size(); ++range)
    append(sweep.ranges[range].dim.c_str(), nb::cast(sweep.size_at(i, range)));
  append("flops", to_python_int(point.flops));
  append("bytes", to_python_int(point.bytes));
  const bool known = point.time_lower_s >= 0;
  append("limiter", known ? nb::cast(std::string(name(point.limiter))) : nb::none());
  append("time_lower_s", to_python_seconds(point.time_lower_s));
  append("time_upper_s", to_python_seconds(point.time_upper_s));
}

nb::dict to_columns(const Sweep& sweep) {
  nb::dict out;
  for (const char* column : {"machine", "dtype"}) out[column] = nb::list();
  for (const DimensionValues& range : sweep.ranges) out[range.dim.c_str()] = nb::list();
  for (const char* column : {"flops", "bytes", "limiter", "time_lower_s", "time_upper_s"}) out[column] = nb::list();
  for (const SweepLine& line : sweep.lines)
    for (std::size_t i = 0; i < line.points.size(); ++i) add_point(sweep, line, i, out);
  return out;
}

using NamedRanges = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

SweepObject sweep_program(const std::string& program, const std::vector<std::string>& on,
                          const std::vector<std::string>& dtypes, const NamedRanges& ranges) {
  SweepRequest request{.program = program, .on = {on.begin(), on.end()}, .curves = true};
  for (const std::string& dtype : dtypes) request.dtypes.push_back(*parse_optional_dtype(dtype));
  for (const auto& [dim, values] : ranges) request.ranges.push_back({dim, values});
  std::optional<Result<Sweep>> out;
  {
    const nb::gil_scoped_release released;
    out = sweep(request);
  }
  auto swept = std::make_shared<const Sweep>(value_or_raise(*std::move(out)));
  return {swept->title, to_columns(*swept), swept};
}

}  // namespace

std::string text_of(const SweepObject& s) { return s.sweep ? render_text(*s.sweep) : s.text; }
std::string json_of(const SweepObject& s) { return s.sweep ? render_json(*s.sweep) : s.json; }
std::string csv_of(const SweepObject& s) { return s.sweep ? render_csv(*s.sweep) : s.csv; }
std::string svg_of(const SweepObject& s) { return s.sweep ? render_svg(*s.sweep) : s.svg; }

void add_sweeps(nb::module_& module) {
  nb::class_<SweepObject> sweep(module, "Sweep");
  add_pickle(sweep)
      .def_ro("title", &SweepObject::title)
      .def("columns", [](const SweepObject& s) { return nb::module_::import_("copy").attr("deepcopy")(s.columns); })
      .def("json", [](const SweepObject& s) { return json_of(s); })
      .def("csv", [](const SweepObject& s) { return csv_of(s); })
      .def("svg", [](const SweepObject& s) { return svg_of(s); })
      .def("to_pandas", [](nb::handle self) { return nb::module_::import_("ridge._html").attr("to_pandas")(self); })
      .def("__len__", [](const SweepObject& s) { return nb::len(nb::object(s.columns["machine"])); })
      .def("__str__", [](const SweepObject& s) { return text_of(s); })
      .def("__repr__", [](const SweepObject& s) { return "<ridge.Sweep of " + s.title + ">"; })
      .def("_repr_html_", [](nb::handle self) { return nb::module_::import_("ridge._html").attr("sweep")(self); });
  module.def("sweep", sweep_program);
  module.def("parse_range", [](const std::string& text) { return value_or_raise(parse_range(text)).values; });
}

}  // namespace ridge::python
