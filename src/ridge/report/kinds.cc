// What each kind of work has of a program's FLOPs and time, for --all: products, what runs along a dimension (softmax,
// norms, sums) and the rest; and how many times fewer FLOPs a second it does than the products, at the lower bounds.
#include <fmt/format.h>

#include <array>

#include "ridge/report/words.h"

namespace ridge {
namespace {

struct Kind {
  const char* name;
  double flops = 0, seconds = 0;
  int ops = 0;
  double rate() const { return seconds > 0 ? flops / seconds : 0; }
};

std::size_t kind_of(const Work& work) {
  if (work.contraction) return 0;
  return work.along ? 1 : 2;
}

std::string shown(double share) { return fmt::format("{:.3g} %", 100 * share); }

}  // namespace

std::string kinds_text(const Explanation& e) {
  std::array<Kind, 3> kinds{{{"products"}, {"along dimensions"}, {"elementwise"}}};
  for (const Prediction& p : e.ops) {
    if (!p.flops || !p.time_lower_s) return {};
    Kind& kind = kinds[kind_of(p.work)];
    kind.flops += static_cast<double>(*p.flops);
    kind.seconds += *p.time_lower_s;
    ++kind.ops;
  }
  const double flops = kinds[0].flops + kinds[1].flops + kinds[2].flops,
               seconds = kinds[0].seconds + kinds[1].seconds + kinds[2].seconds;
  if (kinds[0].ops == static_cast<int>(e.ops.size()) || e.ops.size() < 2 || flops <= 0 || seconds <= 0) return {};
  Rows rows{{"kind", "work", "of work", "of time", "rate", "products do"}};
  for (const Kind& kind : kinds) {
    if (kind.ops == 0) continue;
    const bool slower = kind.rate() > 0 && kinds[0].rate() > kind.rate();
    rows.push_back({kind.name, engineering(kind.flops, "FLOP"), shown(kind.flops / flops),
                    shown(kind.seconds / seconds), engineering(kind.rate(), "FLOP/s"),
                    slower ? significant(kinds[0].rate() / kind.rate()) + " times as many" : ""});
  }
  return "\n" + aligned(rows, {false, true, true, true, true, true});
}

}  // namespace ridge
