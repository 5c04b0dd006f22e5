// Sections and formatting helpers that the text reports share. Internal to report/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/string_util.h"
#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {

using TextRows = std::vector<std::vector<std::string>>;

class TextStyler {
 public:
  explicit TextStyler(const TextStyle& style) : style_(style) {}
  std::string bold(const std::string& text) const { return style_.color ? "\x1b[1m" + text + "\x1b[0m" : text; }
  std::string highlight_warning(const std::string& text) const {
    return style_.color ? "\x1b[33m" + text + "\x1b[0m" : text;
  }
  // Returns the table with its first line in bold.
  std::string format_table(const TextRows& rows, const TableLayout& layout) const {
    return text_table(rows, layout, style_);
  }
  // Returns a table without a header.
  std::string format_rows(const TextRows& rows, const std::vector<bool>& right,
                          const std::vector<std::string>& column_names) const {
    return text_table(rows, {.right = right, .column_names = column_names, .is_in_csv = false}, style_);
  }
  std::size_t line_width() const { return style_.line_width; }

 private:
  TextStyle style_;
};

template <class T> std::string unit_or_dash(const std::optional<T>& value, std::string_view unit) {
  return value ? format_with_prefix(static_cast<double>(*value), unit) : "-";
}
inline std::string number_or_dash(const std::optional<double>& value) {
  return value ? format_significant(*value) : "-";
}
std::string limiter_text(const Prediction& p);    // "-" if unknown
std::string format_percent(double share);         // "33.1 %"
inline const char* work_unit(const Work& work) {  // integer work is counted in OP
  return dtype_info(work.math).is_integer ? "OP" : "FLOP";
}

inline constexpr std::size_t op_name_width = 24;       // max columns of an operation's name in a table
inline constexpr std::size_t file_op_name_width = 44;  // the same for an operator of a file, with its shapes
// Returns "u, g, y", the results of operation `op`, or "12 x MatMul 8x64 * 64x64"; truncated to one of these widths.
std::string op_name(const Report& report, std::size_t op);
// True if a dimension has no value. Reports then show formulas instead of numbers.
bool has_unknown_sizes(const Explanation& e);
std::string dims_text(const Explanation& e);  // "  B = 64  D = ?"
// Returns the operation's fraction of the sum of all lower bounds, or nullopt if times are unknown.
std::optional<double> time_fraction(const Explanation& e, const Prediction& op);
// Returns the indices of operations, largest fraction of the time first; in program order if times are unknown.
std::vector<std::size_t> ops_by_time(const Explanation& e);

// Returns "80.00 GB of hbm's 80.00 GB: does not fit, 512.0 B too many", or a note that the capacity is unknown.
std::string memory_use_text(double bytes, const MemoryUse& memory);

// Returns a header, one row per operation (largest fraction of the time first), the total and the fused program.
TextRows prediction_rows(const Report& report);
inline const std::vector<bool> prediction_right_aligned{false, true, true, true, true, true,
                                                        false, true, true, true, true};
// Columns of `prediction_rows`, the least important first.
inline const std::vector<std::string> prediction_omit_first{"ridge", "FLOP/B", "no overlap", "work",
                                                            "sent",  "bytes",  "of time",    "network"};
// Returns the summary: limiter, largest operations and next steps. Empty if no time is known.
std::string summary_text(const Report& report, const TextStyler& styled);
// Returns the shares of products, of functions along a dimension and of elementwise work; empty if all are products.
std::string work_kinds_text(const Explanation& e, const TextStyler& styled);
// True if the thresholds of `dim` are shown without --all.
bool is_shown_dim(const Report& report, const std::string& dim);
// Returns one line for each size at which a limiter changes. Unless `all` is set, only requested dimensions are shown,
// and long expressions only as decimals.
std::string thresholds_text(const Report& report, const TextStyler& styled, bool all);
// Returns "93.1 %"; for operands in a cache "41.2 % of l3", or "in l3" if the cache's bandwidth was not measured.
std::string roof_fraction_text(const OpMeasurement& m);
// Returns predicted and measured times in one table, and how they were measured.
std::string measured_text(const Report& report, const TextStyler& styled);
// Returns the sources of the machine's numbers; with `all`, also its sustained rates.
std::string sources_text(const Explanation& e, const TextStyler& styled, bool all);

}  // namespace ridge
