#include "ridge/report/language_model/answer_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "ridge/base/string_util.h"

namespace ridge {

std::string count_text(std::int64_t count, std::string_view what) {
  const std::string_view ending = what.ends_with("ch") ? "es" : "s";
  return fmt::format("{} {}{}", group_digits(count), what, count == 1 ? "" : ending);
}

std::string rate_text(double per_s, int digits) {
  if (per_s >= 1e15) return format_significant(per_s);
  const double rounds_to_grouped = 1000 - 0.5;
  if (per_s < rounds_to_grouped) return format_significant(per_s, digits);
  return group_digits(static_cast<std::int64_t>(std::llround(per_s)));
}

std::string chips_text(const std::string& machine, std::int64_t chips, const std::optional<std::int64_t>& hosts) {
  if (chips == 1) return machine;
  return fmt::format("{} x {}{}", group_digits(chips), machine,
                     hosts.value_or(1) > 1 ? fmt::format(" ({} hosts)", group_digits(*hosts)) : "");
}

std::string not_on_record_text(const std::string& machine, const std::vector<std::string>& times) {
  const bool is_one = times.size() == 1;
  return fmt::format("{}: {} {} not on record and count{} as 0, so its times are too low", machine,
                     fmt::join(times, " and "), is_one ? "is" : "are", is_one ? "s" : "");
}

std::string missing_prediction_text(std::string_view what, const std::string& machine, const std::string& remark) {
  return fmt::format("{}: {} at the bound, because there is no prediction{}{}", machine, what,
                     remark.empty() ? "" : ": ", remark);
}

std::string times_as_many_text(double times, const std::string& other) {
  const double rounds_to_one = 1.005;
  if (times < rounds_to_one) return ", the same as " + other;
  return fmt::format(", {} times that of {}", rate_text(times), other);
}

}  // namespace ridge
