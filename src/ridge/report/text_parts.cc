#include "ridge/report/text_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge {

std::string limiter_text(const Prediction& p) { return p.limiter ? std::string(name(*p.limiter)) : "-"; }

std::string format_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string op_name(const Report& report, std::size_t op) {
  const auto& names = report.measured ? report.measured->result_names : report.statement_names;
  if (names.size() <= op) {
    const Prediction& p = report.explanation.ops[op];
    const std::string name = p.calls > 1 ? fmt::format("{} x {}", p.calls, p.work.name) : p.work.name;
    return truncate_text(name, report.is_of_file ? file_op_name_width : op_name_width);
  }
  return truncate_text(fmt::format("{}", fmt::join(names[op], ", ")), op_name_width);
}

bool has_unknown_sizes(const Explanation& e) {
  return std::any_of(e.ops.begin(), e.ops.end(), [](const Prediction& p) { return !p.flops; });
}

std::optional<double> time_fraction(const Explanation& e, const Prediction& op) {
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

std::string memory_use_text(double bytes, const MemoryUse& memory) {
  const std::string memory_use = format_with_prefix(bytes, "B");
  if (!memory.capacity) return memory_use + "; the memory's capacity is unknown";
  const std::string out =
      fmt::format("{} of {}'s {}: ", memory_use, memory.level, format_with_prefix(*memory.capacity, "B"));
  if (bytes <= *memory.capacity) return out + "fits";
  return out + fmt::format("does not fit, {} too many", format_with_prefix(bytes - *memory.capacity, "B"));
}

std::vector<std::size_t> ops_by_time(const Explanation& e) {
  std::vector<std::size_t> out(e.ops.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i;
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    return time_fraction(e, e.ops[a]).value_or(0) > time_fraction(e, e.ops[b]).value_or(0);
  });
  return out;
}

}  // namespace ridge
