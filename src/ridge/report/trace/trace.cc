#include "ridge/report/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_rows = 20, name_width = 48, kernel_width = 40;

std::string seconds_text(double seconds) { return format_with_prefix(seconds, "s"); }

double divide_or_zero(double part, double all) { return all > 0 ? part / all : 0; }

// "GPU time 12.34 ms; 93.1 % of it has a bound and takes 2.41 times that; 18.0 % of 15.02 ms idle"
std::string headline(const profiler::TraceSummary& s) {
  std::string out = fmt::format("{} time {}", s.is_of_device ? "GPU" : "CPU", seconds_text(s.measured_s));
  if (s.bound_s > 0)
    out += fmt::format("; {} of it has a bound and takes {} times that bound",
                       format_percent(divide_or_zero(s.known_s, s.measured_s)),
                       format_significant(s.known_s / s.bound_s, 3));
  else
    out += "; none of it has a bound";
  if (!s.is_of_device) return out + "\n";
  out += fmt::format("; idle {} of {}", format_percent(1 - divide_or_zero(s.busy_s, s.span_s)), seconds_text(s.span_s));
  return out + (s.devices > 1 ? fmt::format(" on {} devices\n", s.devices) : "\n");
}

std::vector<std::string> row_cells(const profiler::TraceRow& row, const profiler::TraceSummary& s) {
  const bool has_bound = row.bound_s.has_value();
  return {truncate_text(row.name, name_width),
          std::to_string(row.calls),
          format_percent(divide_or_zero(row.measured_s, s.measured_s)),
          seconds_text(row.measured_s),
          has_bound ? seconds_text(*row.bound_s) : "-",
          has_bound && row.measured_s > 0 ? format_percent(*row.bound_s / row.measured_s) : "-",
          has_bound ? seconds_text(row.lost_s()) : "-",
          row.limiter ? std::string(name(*row.limiter)) : "-",
          truncate_text(row.kernel, kernel_width)};
}

// Returns a row for those that are not shown.
std::vector<std::string> rest_cells(const profiler::TraceSummary& s) {
  double measured = 0;
  for (std::size_t i = max_rows; i < s.rows.size(); ++i) measured += s.rows[i].measured_s;
  return {fmt::format("{} more", s.rows.size() - max_rows),
          "",
          format_percent(divide_or_zero(measured, s.measured_s)),
          seconds_text(measured),
          "",
          "",
          "",
          "",
          ""};
}

std::string notes_text(const profiler::TraceSummary& s) {
  std::string out = "of roof: bound over measured time; lost: measured time beyond the bound; ranked by it\n";
  out += s.is_of_device ? "a kernel belongs to the operator that launched it; bounds leave launches out\n"
                        : "no kernels in the trace: times are those of the host's operators\n";
  if (!s.has_shapes) out += "no shapes in the trace: record it with record_shapes=True, for bounds\n";
  return out;
}

}  // namespace

std::string render_text(const TraceReport& report, const TextStyle& style) {
  const TextStyler styled(style);
  const profiler::TraceSummary& s = report.summary;
  std::string out = styled.bold(fmt::format("{}  on {}", report.title, s.machine));
  if (!report.machine_title.empty() && report.machine_title != s.machine)
    out += fmt::format(" ({})", report.machine_title);
  out += "\n" + styled.bold(headline(s)) + "\n";
  TextRows rows{{"op", "calls", "of time", "measured", "bound", "of roof", "lost", "limiter", "kernel"}};
  const std::size_t shown = style.show_all ? s.rows.size() : std::min(max_rows, s.rows.size());
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(row_cells(s.rows[i], s));
  if (shown < s.rows.size()) rows.push_back(rest_cells(s));
  if (!s.is_of_device)
    for (auto& row : rows) row.pop_back();
  out += styled.format_table(rows, {{false, true, true, true, true, true, true, false, false},
                                    {"kernel", "calls", "limiter", "of time", "bound"}});
  return out + notes_text(s);
}

std::string render_json(const TraceReport& report) {
  const profiler::TraceSummary& s = report.summary;
  Json out{{"schema", "ridge.trace/1"}, {"title", report.title}, {"machine", s.machine}};
  out["of"] = s.is_of_device ? "device" : "host";
  out["devices"] = s.devices;
  out["measured_s"] = s.measured_s;
  out["known_s"] = s.known_s;
  out["bound_s"] = s.bound_s;
  out["busy_s"] = s.busy_s;
  out["span_s"] = s.span_s;
  out["rows"] = Json::array();
  for (const profiler::TraceRow& row : s.rows) {
    Json one{{"name", row.name}, {"calls", row.calls}, {"kernels", row.kernels}, {"measured_s", row.measured_s}};
    one["bound_s"] = or_null(row.bound_s);
    one["fraction_of_roof"] = row.bound_s && row.measured_s > 0 ? Json(*row.bound_s / row.measured_s) : Json(nullptr);
    one["lost_s"] = row.bound_s ? Json(row.lost_s()) : Json(nullptr);
    one["limiter"] = row.limiter ? Json(name(*row.limiter)) : Json(nullptr);
    one["flops"] = or_null(row.flops);
    one["bytes"] = or_null(row.bytes);
    one["kernel"] = or_null(std::string_view(row.kernel));
    out["rows"].push_back(std::move(one));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ridge
