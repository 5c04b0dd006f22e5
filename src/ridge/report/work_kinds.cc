// Shares of a program's FLOPs and time by kind of work, for --all: products, functions along a dimension (softmax,
// norms, sums) and elementwise work. Also prints how many times higher the products' attainable FLOP/s are.
#include <fmt/format.h>

#include <array>

#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

struct WorkKind {
  const char* name;
  double flops = 0, seconds = 0;  // Seconds: sum of the lower bounds
  int ops = 0;
  double attainable_flops_per_s() const { return seconds > 0 ? flops / seconds : 0; }
};

std::size_t work_kind_index(const Work& work) {
  if (work.contraction) return 0;
  return work.has_along_function ? 1 : 2;
}

std::string share_text(double share) { return fmt::format("{:.3g} %", 100 * share); }

}  // namespace

std::string work_kinds_text(const Explanation& e, const TextStyler& styled) {
  std::array<WorkKind, 3> kinds{{{"products"}, {"along dimensions"}, {"elementwise"}}};
  for (const Prediction& p : e.ops) {
    if (!p.flops || !p.time_lower_s) return {};
    WorkKind& kind = kinds[work_kind_index(p.work)];
    kind.flops += static_cast<double>(*p.flops);
    kind.seconds += *p.time_lower_s;
    ++kind.ops;
  }
  const double flops = kinds[0].flops + kinds[1].flops + kinds[2].flops,
               seconds = kinds[0].seconds + kinds[1].seconds + kinds[2].seconds;
  if (kinds[0].ops == static_cast<int>(e.ops.size()) || e.ops.size() < 2 || flops <= 0 || seconds <= 0) return {};
  TextRows rows{{"kind", "work", "of work", "of time", "rate", "products' rate"}};
  for (const WorkKind& kind : kinds) {
    if (kind.ops == 0) continue;
    const bool slower =
        kind.attainable_flops_per_s() > 0 && kinds[0].attainable_flops_per_s() > kind.attainable_flops_per_s();
    rows.push_back({kind.name, format_with_prefix(kind.flops, "FLOP"), share_text(kind.flops / flops),
                    share_text(kind.seconds / seconds), format_with_prefix(kind.attainable_flops_per_s(), "FLOP/s"),
                    slower ? format_significant(kinds[0].attainable_flops_per_s() / kind.attainable_flops_per_s()) +
                                 " times higher"
                           : ""});
  }
  return "\n" + styled.format_table(rows, {.right = {false, true, true, true, true, true}, .is_in_csv = false});
}

}  // namespace ridge
