// Words and small parts that the texts of a report share. Internal to report/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/text.h"
#include "ridge/report/report.h"

namespace ridge {

using Rows = std::vector<std::vector<std::string>>;

class Styled {
 public:
  explicit Styled(const TextStyle& style) : color_(style.color) {}
  std::string bold(const std::string& text) const { return color_ ? "\x1b[1m" + text + "\x1b[0m" : text; }
  std::string warn(const std::string& text) const { return color_ ? "\x1b[33m" + text + "\x1b[0m" : text; }
  // The first line of a table stands out.
  std::string table(const Rows& rows, const std::vector<bool>& right) const {
    const std::string all = aligned(rows, right);
    const std::size_t end = all.find('\n');
    return bold(all.substr(0, end)) + all.substr(end);
  }

 private:
  bool color_;
};

template <class T> std::string unit_or_dash(const std::optional<T>& value, std::string_view unit) {
  return value ? engineering(static_cast<double>(*value), unit) : "-";
}
inline std::string number_or_dash(const std::optional<double>& value) { return value ? significant(*value) : "-"; }
std::string limiter_text(const Prediction& p);    // "-" where it is not known
std::string percent(double share);                // "33.1 %"
inline const char* work_unit(const Work& work) {  // work on integers is no FLOP
  return info(work.math).integer ? "OP" : "FLOP";
}

inline constexpr std::size_t name_width = 24;  // of an operation's in a table
// "u, g, y": what the operation at this place makes, cut to name_width.
std::string op_name(const Report& report, std::size_t op);
// A dimension has no value, so that some numbers are missing: formulas are then the answer.
bool is_open(const Explanation& e);
std::string dims_text(const Explanation& e);  // "  B = 64  D = ?"
// Of the sum of the lower bounds; none: times are unknown.
std::optional<double> share_of(const Explanation& e, const Prediction& op);
// The operations' places, largest share of the time first; where shares are not known, in the program's order.
std::vector<std::size_t> by_share(const Explanation& e);

// "80.00 GB of hbm's 80.00 GB: does not fit, 512.0 B too many"; where the memory's size is not on record it says so.
std::string held_text(double bytes, const Memory& memory);

// A row an operation, largest share of the time first, then the total and the fused program; with a head.
Rows predicted_rows(const Report& report);
inline const std::vector<bool> predicted_right{false, true, true, true, true, true, false, true, true, true, true};
// The first screen: verdict, largest costs, what to do next; empty where no time is known.
std::string answer_text(const Report& report, const Styled& styled);
// Shares of products, of what runs along dimensions and of the rest; empty where there are products alone.
std::string kinds_text(const Explanation& e);
// Whether this dimension's thresholds are shown without being asked for all.
bool is_asked(const Report& report, const std::string& dim);
// Where each dimension's limiter changes, a line for each size and what changes there; without `all` of the dimensions
// that were asked about, and long expressions as decimals alone.
std::string thresholds_text(const Report& report, const Styled& styled, bool all);
// Predicted beside measured, and how it was measured.
std::string measured_text(const Report& report, const Styled& styled);
// Where the numbers come from; `all`: sustained rates beside the peaks.
std::string sources_text(const Explanation& e, const Styled& styled, bool all);

}  // namespace ridge
