// Python's classes of reports and sweeps. They hold what Python reads, so that they can be pickled without the report.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ridge/python/module.h"
#include "ridge/report/sweep.h"

namespace ridge::python {

// Times of an operation in seconds, and its formulas; fields of `OpSummary`.
struct OpTimes {
  std::optional<double> lower, upper, math, memory, network;
};
struct OpFormulas {
  std::string flops, bytes, intensity;
};

// An operation with its counts, which may exceed 2^63.
struct OpObject : OpSummary {
  std::optional<Count> flop_count = {}, byte_count = {};
};

// The renderers' texts are set in a report that was pickled; others hold the report and render when they are asked to.
struct ReportObject {
  std::string title, machine;
  Bindings dims;
  std::vector<OpObject> ops;
  OpObject total;
  std::optional<OpObject> fused = {};
  std::vector<KernelSummary> planned = {};
  std::optional<std::string> mismatch = {};
  std::shared_ptr<const Report> report = {};
  std::string text = {}, json = {}, svg = {};
};
ReportObject to_object(const Summary& summary);
std::string text_of(const ReportObject& report);
std::string json_of(const ReportObject& report);
std::string svg_of(const ReportObject& report);

struct SweepObject {
  std::string title;
  nanobind::dict columns;
  std::shared_ptr<const Sweep> sweep = {};
  std::string text = {}, json = {}, csv = {}, svg = {};
};
std::string text_of(const SweepObject& sweep);
std::string json_of(const SweepObject& sweep);
std::string csv_of(const SweepObject& sweep);
std::string svg_of(const SweepObject& sweep);

// Converts a count to a Python int and back; -1 and nullopt are None.
nanobind::object to_python_int(const std::optional<Count>& count);
std::optional<Count> to_count(nanobind::handle number);

// State of an object for pickle: a tuple of its fields. `restore_state` constructs an object from it.
nanobind::tuple save_state(const Threshold& threshold);
nanobind::tuple save_state(const OpTimes& times);
nanobind::tuple save_state(const OpFormulas& formulas);
nanobind::tuple save_state(const MeasuredTime& measured);
nanobind::tuple save_state(const KernelSummary& kernel);
nanobind::tuple save_state(const OpObject& op);
nanobind::tuple save_state(const ReportObject& report);
nanobind::tuple save_state(const SweepObject& sweep);
void restore_state(Threshold& threshold, const nanobind::tuple& state);
void restore_state(OpTimes& times, const nanobind::tuple& state);
void restore_state(OpFormulas& formulas, const nanobind::tuple& state);
void restore_state(MeasuredTime& measured, const nanobind::tuple& state);
void restore_state(KernelSummary& kernel, const nanobind::tuple& state);
void restore_state(OpObject& op, const nanobind::tuple& state);
void restore_state(ReportObject& report, const nanobind::tuple& state);
void restore_state(SweepObject& sweep, const nanobind::tuple& state);

// Adds __getstate__ and __setstate__ to a class.
template <class T> nanobind::class_<T>& add_pickle(nanobind::class_<T>& type) {
  type.def("__getstate__", [](const T& self) { return save_state(self); });
  type.def("__setstate__", [](T& self, const nanobind::tuple& state) { restore_state(self, state); });
  return type;
}

}  // namespace ridge::python
