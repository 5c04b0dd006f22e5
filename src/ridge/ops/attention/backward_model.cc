#include <fmt/format.h>

#include "ridge/ops/attention/model.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
namespace {

std::optional<std::string> refused_result(const char* name, const HeadsLayout& x, const AttentionProblem& p,
                                          std::int64_t heads, std::int64_t rows) {
  if ((p.outer > 1 && x.outer == 0) || (heads > 1 && x.head == 0))
    return fmt::format("{}'s heads lie in one place: expected strides above 0, found {} and {} for {} x {} heads", name,
                       x.outer, x.head, p.outer, heads);
  if (x.row < p.width && rows > 1)
    return fmt::format("{}'s rows overlap: expected a row stride of at least {}, found {}", name, p.width, x.row);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refuse(const AttentionBackwardProblem& problem) {
  AttentionProblem p = problem.forward;
  p.o = problem.dq;  // o is only read
  if (p.cap > 0) return fmt::format("expected scores without a cap in attention's gradients, found {}", p.cap);
  if (!p.walks) return "expected rows that each see keys of their own in attention's gradients, found one band for all";
  if (auto why = refused_result("dq", problem.dq, p, p.heads, p.rows)) return why;
  if (auto why = refuse(p)) return why;
  if (auto why = refused_result("dk", problem.dk, p, p.key_heads, p.keys)) return why;
  return refused_result("dv", problem.dv, p, p.key_heads, p.keys);
}

// dq's sums are written and read beside the operands.
CpuForecast cpu_forecast(const AttentionBackwardProblem& p, int) {
  return {.kernel = "attention_backward", .vector_flops = flops(p)};
}

}  // namespace ridge::ops
