// Python classes and functions of explain and measure.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "ridge/base/contains.h"
#include "ridge/python/report.h"
#include "ridge/report/report.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

OpObject to_op_object(const OpSummary& op, const Prediction& prediction) {
  OpObject out{op};
  out.flop_count = prediction.flops;
  out.byte_count = prediction.bytes;
  return out;
}

std::string describe_times(const OpTimes& times) {
  const auto seconds = [](const std::optional<double>& value) { return value ? fmt::format("{:.4g} s", *value) : "?"; };
  return fmt::format("<ridge.Time lower={}, upper={}, math={}, memory={}, network={}>", seconds(times.lower),
                     seconds(times.upper), seconds(times.math), seconds(times.memory), seconds(times.network));
}

std::optional<std::string> limiter_of(const OpObject& op) {
  if (!op.limiter) return std::nullopt;
  return std::string(name(*op.limiter));
}

std::string describe_op(const OpObject& op) {
  return fmt::format("<ridge.Op {}: {}-bound>", op.name, limiter_of(op).value_or("un"));
}

void add_thresholds(nb::module_& module) {
  nb::class_<Threshold> threshold(module, "Threshold");
  add_pickle(threshold)
      .def_ro("dim", &Threshold::dim)
      .def_prop_ro("relation", [](const Threshold& t) { return std::string(name(t.relation)); })
      .def_ro("exact", &Threshold::exact)
      .def_ro("value", &Threshold::value)
      .def_ro("value_real", &Threshold::value_real)
      .def_ro("approx", &Threshold::approx)
      .def_ro("assuming", &Threshold::assuming)
      .def_ro("condition", &Threshold::condition)
      .def_prop_ro("roofs",
                   [](const Threshold& t) {
                     return nb::make_tuple(std::string(name(t.roofs[0])), std::string(name(t.roofs[1])));
                   })
      .def_ro("ratio", &Threshold::ratio)
      .def_ro("unit", &Threshold::unit)
      .def_ro("numerical", &Threshold::numerical)
      .def("__str__", [](const Threshold& t) { return threshold_text(t); })
      .def("__repr__", [](const Threshold& t) { return fmt::format("<ridge.Threshold {}>", threshold_text(t)); });
}

void add_time_classes(nb::module_& module) {
  nb::class_<OpTimes> times(module, "Time");
  add_pickle(times)
      .def_ro("lower", &OpTimes::lower)
      .def_ro("upper", &OpTimes::upper)
      .def_ro("math", &OpTimes::math)
      .def_ro("memory", &OpTimes::memory)
      .def_ro("network", &OpTimes::network)
      .def("__repr__", describe_times);
  nb::class_<OpFormulas> formulas(module, "Formula");
  add_pickle(formulas)
      .def_ro("flops", &OpFormulas::flops)
      .def_ro("bytes", &OpFormulas::bytes)
      .def_ro("intensity", &OpFormulas::intensity)
      .def("__repr__",
           [](const OpFormulas& f) { return fmt::format("<ridge.Formula {} FLOP, {} B>", f.flops, f.bytes); });
  nb::class_<MeasuredTime> measured(module, "Measured");
  add_pickle(measured)
      .def_ro("median", &MeasuredTime::median_s)
      .def_ro("min", &MeasuredTime::min_s)
      .def_ro("max", &MeasuredTime::max_s)
      .def_ro("runs", &MeasuredTime::runs)
      .def_ro("fraction_of_roof", &MeasuredTime::fraction_of_roof)
      .def_ro("max_rel_error", &MeasuredTime::max_rel_error)
      .def_ro("note", &MeasuredTime::note)
      .def_ro("warnings", &MeasuredTime::warnings)
      .def("__repr__", [](const MeasuredTime& m) {
        return fmt::format("<ridge.Measured median={:.4g} s of {} runs>", m.median_s, m.runs);
      });
  nb::class_<KernelSummary> kernel(module, "Kernel");
  add_pickle(kernel)
      .def_ro("results", &KernelSummary::results)
      .def_ro("kernel", &KernelSummary::kernel)
      .def_ro("low", &KernelSummary::low_s)
      .def_ro("expected", &KernelSummary::expected_s)
      .def_ro("high", &KernelSummary::high_s)
      .def_ro("memory_bytes", &KernelSummary::memory_bytes)
      .def("__repr__", [](const KernelSummary& k) {
        return fmt::format("<ridge.Kernel {}: expected {:.4g} s>", k.kernel, k.expected_s);
      });
}

void add_ops(nb::module_& module) {
  nb::class_<OpObject> type(module, "Op");
  type.def_ro("name", &OpObject::name)
      .def_ro("text", &OpObject::text)
      .def_prop_ro("flops", [](const OpObject& op) { return to_python_int(op.flop_count); })
      .def_prop_ro("bytes", [](const OpObject& op) { return to_python_int(op.byte_count); })
      .def_ro("intensity", &OpObject::intensity)
      .def_ro("ridge", &OpObject::ridge)
      .def_prop_ro("limiter", limiter_of)
      .def_prop_ro("time",
                   [](const OpObject& op) {
                     return OpTimes{op.lower_s, op.upper_s, op.math_s, op.memory_s, op.network_s};
                   })
      .def_prop_ro("formula",
                   [](const OpObject& op) {
                     return OpFormulas{op.flops_formula, op.bytes_formula, op.intensity_formula};
                   })
      .def_ro("missing", &OpObject::missing)
      .def_ro("thresholds", &OpObject::thresholds)
      .def_ro("measured", &OpObject::measured)
      .def("__repr__", describe_op);
  add_pickle(type);
}

nb::object to_html(nb::handle report) { return nb::module_::import_("ridge._html").attr("report")(report); }

void add_report(nb::module_& module) {
  nb::class_<ReportObject> report(module, "Report");
  report.def_ro("title", &ReportObject::title)
      .def_ro("machine", &ReportObject::machine)
      .def_ro("dims", &ReportObject::dims)
      .def_ro("ops", &ReportObject::ops)
      .def_ro("total", &ReportObject::total)
      .def_ro("fused", &ReportObject::fused)
      .def_ro("planned", &ReportObject::planned)
      .def_ro("mismatch", &ReportObject::mismatch)
      .def("json", [](const ReportObject& r) { return json_of(r); })
      .def("svg", [](const ReportObject& r) { return svg_of(r); })
      .def("__str__", [](const ReportObject& r) { return text_of(r); })
      .def("__repr__",
           [](const ReportObject& r) { return fmt::format("<ridge.Report of {} on {}>", r.title, r.machine); })
      .def("_repr_html_", to_html);
  add_pickle(report);
}

struct ExplainOptions {
  std::optional<std::string> dtype, split_dim, link, memory, weights, narrow;
  std::int64_t chips = 1;
  bool planned = false, sustained = false;
};

// Returns the machine. Machines of the catalog are parsed once; other files may change while the process runs.
MachineChoice cached_machine_choice(const std::string& on) {
  static const std::vector<std::string> catalog = catalog_names();
  if (!contains(catalog, on)) return on;
  static std::mutex mutex;
  static std::map<std::string, MachineChoice> parsed;
  const std::lock_guard lock(mutex);
  const auto found = parsed.find(on);
  if (found != parsed.end()) return found->second;
  auto machine = machine_of(on);
  if (!machine) return on;
  return parsed.emplace(on, MachineChoice(*std::move(machine))).first->second;
}

Request make_request(const std::string& program, const std::string& on, const Bindings& dims,
                     const ExplainOptions& options) {
  Request out{
      .program = program, .on = cached_machine_choice(on), .dims = dims, .dtype = parse_optional_dtype(options.dtype)};
  if (options.split_dim) out.split = DimensionSplit{*options.split_dim, options.chips};
  if (options.link) out.link = LinkChoice(*options.link);
  if (options.memory) out.memory = LinkChoice(*options.memory);
  if (options.planned) out.planned = KernelChoice::ridge;
  out.weights = parse_optional_dtype(options.weights);
  out.narrow = parse_optional_dtype(options.narrow);
  out.sustained = options.sustained;
  return out;
}

ReportObject explain_program(const std::string& program, const std::string& on, const Bindings& dims,
                             const ExplainOptions& options) {
  const Request request = make_request(program, on, dims, options);
  std::optional<Result<Summary>> out;
  {
    const nb::gil_scoped_release released;
    out = explain(request);
  }
  return to_object(value_or_raise(*std::move(out)));
}

struct MeasureOptions {
  int passes = 0, threads = 0;
  double seconds = 0;
  std::int64_t seed = 0;
};

ReportObject measure_program(const std::string& program, const std::string& on, const Bindings& dims,
                             const std::optional<std::string>& dtype, const MeasureOptions& options) {
  const Request request{.program = program, .on = on, .dims = dims, .dtype = parse_optional_dtype(dtype)};
  const RunRequest run_request{.seed = static_cast<std::uint64_t>(options.seed),
                               .threads = options.threads,
                               .passes = options.passes,
                               .seconds = options.seconds};
  std::optional<Result<Summary>> out;
  {
    const nb::gil_scoped_release released;
    out = run(request, run_request);
  }
  return to_object(value_or_raise(*std::move(out)));
}

}  // namespace

ReportObject to_object(const Summary& summary) {
  const Explanation& explanation = summary.report->explanation;
  ReportObject out{.title = summary.title,
                   .machine = summary.machine.name,
                   .dims = summary.dims,
                   .ops = {},
                   .total = to_op_object(summary.total, explanation.total),
                   .planned = summary.planned,
                   .report = summary.report};
  for (std::size_t i = 0; i < summary.ops.size(); ++i)
    out.ops.push_back(to_op_object(summary.ops[i], explanation.ops[i]));
  if (summary.fused) out.fused = to_op_object(*summary.fused, *explanation.fused);
  if (summary.mismatch) out.mismatch = summary.mismatch->to_string();
  return out;
}

std::string text_of(const ReportObject& r) { return r.report ? render_text(*r.report) : r.text; }
std::string json_of(const ReportObject& r) { return r.report ? render_json(*r.report) : r.json; }
std::string svg_of(const ReportObject& r) { return r.report ? render_svg(*r.report) : r.svg; }

void add_reports(nb::module_& module) {
  add_thresholds(module);
  add_time_classes(module);
  add_ops(module);
  add_report(module);
  nb::class_<ExplainOptions>(module, "ExplainOptions")
      .def(nb::init<>())
      .def_rw("dtype", &ExplainOptions::dtype, nb::arg().none())
      .def_rw("split_dim", &ExplainOptions::split_dim, nb::arg().none())
      .def_rw("chips", &ExplainOptions::chips)
      .def_rw("link", &ExplainOptions::link, nb::arg().none())
      .def_rw("memory", &ExplainOptions::memory, nb::arg().none())
      .def_rw("weights", &ExplainOptions::weights, nb::arg().none())
      .def_rw("narrow", &ExplainOptions::narrow, nb::arg().none())
      .def_rw("planned", &ExplainOptions::planned)
      .def_rw("sustained", &ExplainOptions::sustained);
  module.def("explain", explain_program);
  module.def("explain_work", [](double flops, double bytes, const std::string& on, const std::string& dtype) {
    return to_object(value_or_raise(explain(BareWork{Flops{flops}, Bytes{bytes}, on, *parse_optional_dtype(dtype)})));
  });
  module.def("measure",
             [](const std::string& program, const std::string& on, const Bindings& dims,
                const std::optional<std::string>& dtype, int passes, double seconds, int threads, std::int64_t seed) {
               return measure_program(program, on, dims, dtype, {passes, threads, seconds, seed});
             });
  module.def("catalog", catalog_names);
  module.def("machines", [] {
    std::vector<std::string> names;
    for (const Machine& machine : value_or_raise(machines()).machines) names.push_back(machine.name);
    return names;
  });
}

}  // namespace ridge::python
