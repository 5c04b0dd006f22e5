#include "ridge/profiler/summary.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "ridge/base/string_util.h"
#include "ridge/profiler/operator_work.h"

namespace ridge::profiler {
namespace {

constexpr double seconds_per_us = 1e-6;
// Clock ticks by which a nested operator may end after the one around it, from rounding to decimals.
constexpr double tolerance_us = 0.002;

// Bound of one call of each signature.
struct Bound {
  std::optional<OperatorWork> work;
  double seconds = 0;
  std::optional<Limiter> limiter;
};

// Returns the bounds of all signatures. An operator whose dtype the machine has no peak for has none.
Result<std::vector<Bound>> find_bounds(const Trace& trace, Machine machine) {
  machine.numbers.erase("launch_s");  // Kernels' times do not contain their launches
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  std::vector<Bound> out(trace.signatures.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto work = find_operator_work(trace.signatures[i]);
    if (!work) continue;
    const auto explained = explain_operators({*work}, machine);
    if (!explained || !explained->total.time_lower_s) continue;
    out[i] = {std::move(work), *explained->total.time_lower_s, explained->ops.front().limiter};
  }
  return out;
}

// Operators of a thread in order of their starts, each with the one around it.
struct NestedOps {
  std::vector<std::size_t> order;     // Indices into `Trace::ops`
  std::vector<std::ptrdiff_t> outer;  // Positions in `order`, -1 for none
};

using ThreadKey = std::pair<std::int64_t, std::int64_t>;

double end_of(const HostOp& op) { return op.start_us + op.duration_us; }

std::map<ThreadKey, NestedOps> nest_ops(const Trace& trace) {
  std::map<ThreadKey, NestedOps> out;
  for (std::size_t i = 0; i < trace.ops.size(); ++i)
    out[{trace.ops[i].process, trace.ops[i].thread}].order.push_back(i);
  for (auto& [key, nested] : out) {
    std::stable_sort(nested.order.begin(), nested.order.end(), [&](std::size_t a, std::size_t b) {
      const HostOp &x = trace.ops[a], &y = trace.ops[b];
      return x.start_us != y.start_us ? x.start_us < y.start_us : x.duration_us > y.duration_us;
    });
    std::vector<std::ptrdiff_t> open;
    for (const std::size_t i : nested.order) {
      while (!open.empty() && end_of(trace.ops[nested.order[static_cast<std::size_t>(open.back())]]) + tolerance_us <
                                  end_of(trace.ops[i]))
        open.pop_back();
      nested.outer.push_back(open.empty() ? -1 : open.back());
      open.push_back(static_cast<std::ptrdiff_t>(nested.outer.size()) - 1);
    }
  }
  return out;
}

// Returns the position of the innermost operator that contains the time, or -1.
std::ptrdiff_t find_innermost(const Trace& trace, const NestedOps& nested, double time_us) {
  const auto after = std::upper_bound(nested.order.begin(), nested.order.end(), time_us,
                                      [&](double time, std::size_t i) { return time < trace.ops[i].start_us; });
  std::ptrdiff_t at = after - nested.order.begin() - 1;
  while (at >= 0 && end_of(trace.ops[nested.order[static_cast<std::size_t>(at)]]) < time_us)
    at = nested.outer[static_cast<std::size_t>(at)];
  return at;
}

// Time that device work, or the host, spends for one call of an operator.
struct CallTime {
  double seconds = 0;
  std::int64_t kernels = 0;
};

// Rows by operator and shapes, or by kernel.
class SummaryRows {
 public:
  SummaryRows(const Trace& trace, const std::vector<Bound>& bounds) : trace_(trace), bounds_(bounds) {
    for (std::size_t i = 0; i < bounds.size(); ++i)
      names_.push_back(bounds[i].work ? bounds[i].work->name : describe_operator(trace.signatures[i]));
  }

  // Adds a call of an operator. Without `has_bound` its bound is part of other rows.
  void add_call(int signature, const CallTime& time, bool has_bound) {
    const Bound& bound = bounds_[static_cast<std::size_t>(signature)];
    TraceRow& row = rows_[find_row(signature)];
    ++row.calls;
    row.kernels += time.kernels;
    row.measured_s += time.seconds;
    if (!bound.work || !has_bound) return;
    row.bound_s = row.bound_s.value_or(0) + bound.seconds;
    row.limiter = bound.limiter;
    row.flops = row.flops.value_or(0) + bound.work->flops;
    row.bytes = row.bytes.value_or(0) + bound.work->bytes_in + bound.work->bytes_out;
  }
  // Adds the time of a kernel to an operator's row, which shows the kernel that takes most.
  void add_kernel_of(int signature, int kernel, double seconds) {
    kernel_times_[find_row(signature)][kernel] += seconds;
  }
  // Adds a kernel that no operator launched.
  void add_kernel(int kernel, double seconds) {
    const std::string& name = trace_.names[static_cast<std::size_t>(kernel)];
    TraceRow& row = rows_[find_row("kernel|" + name, make_printable(name.substr(0, max_name)))];
    ++row.calls;
    ++row.kernels;
    row.measured_s += seconds;
  }
  std::vector<TraceRow> sort_rows();

 private:
  static constexpr std::size_t max_name = 200;

  std::size_t find_row(int signature) {
    const std::string& name = names_[static_cast<std::size_t>(signature)];
    return find_row(name + "|" + trace_.signatures[static_cast<std::size_t>(signature)].types, name);
  }
  std::size_t find_row(const std::string& key, const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(key, rows_.size());
    if (is_new) rows_.push_back({.name = name, .kernel = {}});
    return found->second;
  }

  const Trace& trace_;
  const std::vector<Bound>& bounds_;
  std::vector<std::string> names_;  // By signature
  std::vector<TraceRow> rows_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, std::map<int, double>> kernel_times_;  // By row and kernel
};

std::vector<TraceRow> SummaryRows::sort_rows() {
  for (const auto& [row, kernels] : kernel_times_) {
    const auto largest = std::max_element(kernels.begin(), kernels.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    rows_[row].kernel = make_printable(trace_.names[static_cast<std::size_t>(largest->first)].substr(0, max_name));
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.lost_s() > b.lost_s(); });
  return std::move(rows_);
}

// Returns the length of the union of the intervals, in microseconds; sorts them.
double measure_union(std::vector<std::pair<double, double>>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  double out = 0, end = -std::numeric_limits<double>::infinity();
  for (const auto& [start, stop] : intervals) {
    if (stop > end) out += stop - std::max(start, end);
    end = std::max(end, stop);
  }
  return out;
}

void measure_devices(const Trace& trace, TraceSummary& out) {
  std::map<std::int64_t, std::vector<std::pair<double, double>>> by_device;
  for (const DeviceActivity& work : trace.device_activities)
    by_device[work.device].emplace_back(work.start_us, work.start_us + work.duration_us);
  for (auto& [device, intervals] : by_device) {
    double last = intervals.front().second;
    for (const auto& [start, stop] : intervals) last = std::max(last, stop);
    out.busy_s += measure_union(intervals) * seconds_per_us;
    out.span_s += (last - intervals.front().first) * seconds_per_us;
  }
  out.devices = static_cast<std::int64_t>(by_device.size());
}

// Returns the position of the operator of which a kernel is: the innermost one with a bound, else the innermost one.
std::ptrdiff_t choose_op(const Trace& trace, const NestedOps& nested, const std::vector<Bound>& bounds,
                         std::ptrdiff_t innermost) {
  for (std::ptrdiff_t at = innermost; at >= 0; at = nested.outer[static_cast<std::size_t>(at)]) {
    const HostOp& op = trace.ops[nested.order[static_cast<std::size_t>(at)]];
    if (bounds[static_cast<std::size_t>(op.signature)].work) return at;
  }
  return innermost;
}

void add_device_rows(const Trace& trace, const std::vector<Bound>& bounds, SummaryRows& rows) {
  const std::map<ThreadKey, NestedOps> threads = nest_ops(trace);
  std::unordered_map<std::int64_t, const Launch*> launches;
  for (const Launch& launch : trace.launches)
    if (launch.correlation >= 0) launches[launch.correlation] = &launch;
  std::map<std::size_t, CallTime> calls;  // By operator
  for (const DeviceActivity& work : trace.device_activities) {
    const double seconds = work.duration_us * seconds_per_us;
    const auto launch = launches.find(work.correlation);
    const auto thread =
        launch == launches.end() ? threads.end() : threads.find({launch->second->process, launch->second->thread});
    const std::ptrdiff_t innermost =
        thread == threads.end() ? -1 : find_innermost(trace, thread->second, launch->second->start_us);
    if (innermost < 0) {
      rows.add_kernel(work.name, seconds);
      continue;
    }
    const std::ptrdiff_t at = choose_op(trace, thread->second, bounds, innermost);
    const std::size_t op = thread->second.order[static_cast<std::size_t>(at)];
    calls[op].seconds += seconds;
    ++calls[op].kernels;
    rows.add_kernel_of(trace.ops[op].signature, work.name, seconds);
  }
  for (const auto& [op, time] : calls) rows.add_call(trace.ops[op].signature, time, true);
}

// Returns 2 for an operator with the bound of a product, 1 for another one with a bound, else 0.
int rank_bound(const Bound& bound) {
  if (!bound.work) return 0;
  return bound.work->contraction ? 2 : 1;
}

// Marks the operators that own the time inside them: those with a bound that contain none of the same or a higher rank.
// A product owns the copy of its bias.
std::vector<bool> find_bounded_ops(const Trace& trace, const NestedOps& nested, const std::vector<Bound>& bounds) {
  std::vector<int> highest_inside(nested.order.size());
  std::vector<bool> out(nested.order.size());
  for (std::size_t i = nested.order.size(); i-- > 0;) {
    const int rank = rank_bound(bounds[static_cast<std::size_t>(trace.ops[nested.order[i]].signature)]);
    out[i] = rank > highest_inside[i];
    if (nested.outer[i] < 0) continue;
    int& outer = highest_inside[static_cast<std::size_t>(nested.outer[i])];
    outer = std::max({outer, rank, highest_inside[i]});
  }
  return out;
}

// Adds the operators of a thread with the time that is not in operators inside them.
void add_thread_rows(const Trace& trace, const NestedOps& nested, const std::vector<Bound>& bounds, SummaryRows& rows) {
  const std::vector<bool> is_bounded = find_bounded_ops(trace, nested, bounds);
  std::vector<double> self_us(nested.order.size());
  std::vector<std::size_t> owner(nested.order.size());
  std::map<std::size_t, CallTime> calls;
  for (std::size_t i = 0; i < nested.order.size(); ++i) {
    const double duration = trace.ops[nested.order[i]].duration_us;
    self_us[i] += duration;
    owner[i] = i;
    if (nested.outer[i] < 0) continue;
    const auto outer = static_cast<std::size_t>(nested.outer[i]);
    self_us[outer] -= duration;
    if (is_bounded[owner[outer]]) owner[i] = owner[outer];
  }
  for (std::size_t i = 0; i < owner.size(); ++i) calls[owner[i]].seconds += std::max(self_us[i], 0.0) * seconds_per_us;
  for (const auto& [i, time] : calls) rows.add_call(trace.ops[nested.order[i]].signature, time, is_bounded[i]);
}

void add_host_rows(const Trace& trace, const std::vector<Bound>& bounds, SummaryRows& rows, TraceSummary& out) {
  for (const auto& [key, nested] : nest_ops(trace)) add_thread_rows(trace, nested, bounds, rows);
  double first = trace.ops.front().start_us, last = first;
  for (const HostOp& op : trace.ops) {
    first = std::min(first, op.start_us);
    last = std::max(last, end_of(op));
  }
  out.span_s = (last - first) * seconds_per_us;
}

}  // namespace

Result<TraceSummary> summarize_trace(const Trace& trace, const Machine& machine) {
  TraceSummary out;
  out.machine = machine.name;
  RIDGE_TRY(bounds, find_bounds(trace, machine));
  for (const Signature& signature : trace.signatures) out.has_shapes = out.has_shapes || !signature.shapes.empty();
  SummaryRows rows(trace, bounds);
  out.is_of_device = !trace.device_activities.empty();
  if (out.is_of_device) {
    measure_devices(trace, out);
    add_device_rows(trace, bounds, rows);
  } else {
    add_host_rows(trace, bounds, rows, out);
  }
  out.rows = rows.sort_rows();
  for (const TraceRow& row : out.rows) {
    out.measured_s += row.measured_s;
    if (row.bound_s) out.known_s += row.measured_s;
    out.bound_s += row.bound_s.value_or(0);
  }
  if (!out.is_of_device) out.busy_s = out.measured_s;
  return out;
}

}  // namespace ridge::profiler
