// States of reports and sweeps for pickle. A state belongs to this version of ridge; other versions may not read it.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "ridge/python/report.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

template <class T> T field(const nb::tuple& state, std::size_t i) { return nb::cast<T>(nb::object(state[i])); }

using OptionalDouble = std::optional<double>;

std::optional<int> to_number(const std::optional<Limiter>& limiter) {
  return limiter ? std::optional(static_cast<int>(*limiter)) : std::nullopt;
}

std::optional<Limiter> to_limiter(const std::optional<int>& number) {
  return number ? std::optional(static_cast<Limiter>(*number)) : std::nullopt;
}

}  // namespace

nb::object to_python_int(const std::optional<Count>& count) {
  if (!count || *count < 0) return nb::none();
  if (*count <= INT64_MAX) return nb::int_(static_cast<std::int64_t>(*count));
  return nb::int_(static_cast<std::uint64_t>(*count >> 64)) * (nb::int_(1) << nb::int_(64)) +
         nb::int_(static_cast<std::uint64_t>(*count));
}

std::optional<Count> to_count(nb::handle number) {
  if (number.is_none()) return std::nullopt;
  const nb::object whole = nb::borrow(number), word = nb::int_(1) << nb::int_(64);
  const auto high = nb::cast<std::uint64_t>(whole.attr("__floordiv__")(word));
  const auto low = nb::cast<std::uint64_t>(whole.attr("__mod__")(word));
  return (static_cast<Count>(high) << 64) + static_cast<Count>(low);
}

nb::tuple save_state(const Threshold& t) {
  return nb::make_tuple(t.dim, static_cast<int>(t.relation), t.exact, t.value, t.value_real, t.approx, t.assuming,
                        t.condition, static_cast<int>(t.roofs[0]), static_cast<int>(t.roofs[1]), t.ratio, t.unit,
                        t.numerical, t.decides_limiter);
}

void restore_state(Threshold& t, const nb::tuple& state) {
  new (&t) Threshold{field<std::string>(state, 0),
                     static_cast<Relation>(field<int>(state, 1)),
                     field<std::string>(state, 2),
                     field<std::optional<std::int64_t>>(state, 3),
                     field<OptionalDouble>(state, 4),
                     field<OptionalDouble>(state, 5),
                     field<std::string>(state, 6),
                     field<std::string>(state, 7),
                     {static_cast<Limiter>(field<int>(state, 8)), static_cast<Limiter>(field<int>(state, 9))},
                     field<double>(state, 10),
                     field<std::string>(state, 11),
                     field<bool>(state, 12),
                     field<bool>(state, 13)};
}

nb::tuple save_state(const OpTimes& t) { return nb::make_tuple(t.lower, t.upper, t.math, t.memory, t.network); }

void restore_state(OpTimes& t, const nb::tuple& state) {
  new (&t) OpTimes{field<OptionalDouble>(state, 0), field<OptionalDouble>(state, 1), field<OptionalDouble>(state, 2),
                   field<OptionalDouble>(state, 3), field<OptionalDouble>(state, 4)};
}

nb::tuple save_state(const OpFormulas& f) { return nb::make_tuple(f.flops, f.bytes, f.intensity); }

void restore_state(OpFormulas& f, const nb::tuple& state) {
  new (&f) OpFormulas{field<std::string>(state, 0), field<std::string>(state, 1), field<std::string>(state, 2)};
}

nb::tuple save_state(const MeasuredTime& m) {
  return nb::make_tuple(m.median_s, m.min_s, m.max_s, m.runs, m.fraction_of_roof, m.max_rel_error, m.note, m.warnings);
}

void restore_state(MeasuredTime& m, const nb::tuple& state) {
  new (&m) MeasuredTime{field<double>(state, 0),         field<double>(state, 1),
                        field<double>(state, 2),         field<int>(state, 3),
                        field<OptionalDouble>(state, 4), field<double>(state, 5),
                        field<std::string>(state, 6),    field<std::vector<std::string>>(state, 7)};
}

nb::tuple save_state(const KernelSummary& k) {
  return nb::make_tuple(k.results, k.kernel, k.low_s, k.expected_s, k.high_s, k.memory_bytes);
}

void restore_state(KernelSummary& k, const nb::tuple& state) {
  new (&k) KernelSummary{field<std::vector<std::string>>(state, 0),
                         field<std::string>(state, 1),
                         field<double>(state, 2),
                         field<double>(state, 3),
                         field<double>(state, 4),
                         field<std::int64_t>(state, 5)};
}

nb::tuple save_state(const OpObject& op) {
  return nb::make_tuple(op.name, op.text, to_python_int(op.flop_count), to_python_int(op.byte_count), op.intensity,
                        op.ridge, op.flops_formula, op.bytes_formula, op.intensity_formula, to_number(op.limiter),
                        op.math_s, op.memory_s, op.network_s, op.lower_s, op.upper_s, op.missing, op.thresholds,
                        op.measured);
}

void restore_state(OpObject& op, const nb::tuple& state) {
  new (&op) OpObject;
  op.name = field<std::string>(state, 0);
  op.text = field<std::string>(state, 1);
  op.flop_count = to_count(state[2]);
  op.byte_count = to_count(state[3]);
  op.intensity = field<OptionalDouble>(state, 4);
  op.ridge = field<OptionalDouble>(state, 5);
  op.flops_formula = field<std::string>(state, 6);
  op.bytes_formula = field<std::string>(state, 7);
  op.intensity_formula = field<std::string>(state, 8);
  op.limiter = to_limiter(field<std::optional<int>>(state, 9));
  op.math_s = field<OptionalDouble>(state, 10);
  op.memory_s = field<OptionalDouble>(state, 11);
  op.network_s = field<OptionalDouble>(state, 12);
  op.lower_s = field<OptionalDouble>(state, 13);
  op.upper_s = field<OptionalDouble>(state, 14);
  op.missing = field<std::string>(state, 15);
  op.thresholds = field<std::vector<Threshold>>(state, 16);
  op.measured = field<std::optional<MeasuredTime>>(state, 17);
}

nb::tuple save_state(const ReportObject& r) {
  return nb::make_tuple(r.title, r.machine, r.dims, r.ops, r.total, r.fused, r.planned, r.mismatch, text_of(r),
                        json_of(r), svg_of(r));
}

void restore_state(ReportObject& r, const nb::tuple& state) {
  new (&r) ReportObject{.title = field<std::string>(state, 0),
                        .machine = field<std::string>(state, 1),
                        .dims = field<Bindings>(state, 2),
                        .ops = field<std::vector<OpObject>>(state, 3),
                        .total = field<OpObject>(state, 4),
                        .fused = field<std::optional<OpObject>>(state, 5),
                        .planned = field<std::vector<KernelSummary>>(state, 6),
                        .mismatch = field<std::optional<std::string>>(state, 7),
                        .text = field<std::string>(state, 8),
                        .json = field<std::string>(state, 9),
                        .svg = field<std::string>(state, 10)};
}

nb::tuple save_state(const SweepObject& s) {
  return nb::make_tuple(s.title, s.columns, text_of(s), json_of(s), csv_of(s), svg_of(s));
}

void restore_state(SweepObject& s, const nb::tuple& state) {
  new (&s) SweepObject{.title = field<std::string>(state, 0),
                       .columns = field<nb::dict>(state, 1),
                       .text = field<std::string>(state, 2),
                       .json = field<std::string>(state, 3),
                       .csv = field<std::string>(state, 4),
                       .svg = field<std::string>(state, 5)};
}

}  // namespace ridge::python
