#include "ridge/report/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge {

std::string limiter_text(const Prediction& p) { return p.limiter ? std::string(name(*p.limiter)) : "-"; }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string op_name(const Report& report, std::size_t op) {
  const auto& names = report.measured ? report.measured->names : report.statements;
  if (names.size() <= op) return shortened(report.explanation.ops[op].work.name, name_width);
  return shortened(fmt::format("{}", fmt::join(names[op], ", ")), name_width);
}

bool is_open(const Explanation& e) {
  return std::any_of(e.ops.begin(), e.ops.end(), [](const Prediction& p) { return !p.flops; });
}

std::optional<double> share_of(const Explanation& e, const Prediction& op) {
  if (!op.time_lower_s || !e.total.time_lower_s || !(*e.total.time_lower_s > 0)) return std::nullopt;
  return *op.time_lower_s / *e.total.time_lower_s;
}

std::string dims_text(const Explanation& e) {
  std::string out;
  for (const std::string& dim : e.dim_names) {
    const auto value = e.dims.find(dim);
    out += fmt::format("  {} = {}", dim, value == e.dims.end() ? "?" : std::to_string(value->second));
  }
  return out;
}

std::string held_text(double bytes, const Memory& memory) {
  const std::string held = engineering(bytes, "B");
  if (!memory.capacity) return held + "; the memory's size is not on record";
  const std::string out = fmt::format("{} of {}'s {}: ", held, memory.level, engineering(*memory.capacity, "B"));
  if (bytes <= *memory.capacity) return out + "fits";
  return out + fmt::format("does not fit, {} too many", engineering(bytes - *memory.capacity, "B"));
}

std::vector<std::size_t> by_share(const Explanation& e) {
  std::vector<std::size_t> out(e.ops.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    return share_of(e, e.ops[a]).value_or(0) > share_of(e, e.ops[b]).value_or(0);
  });
  return out;
}

}  // namespace ridge
