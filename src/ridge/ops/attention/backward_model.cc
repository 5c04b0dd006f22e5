#include <fmt/format.h>

#include "ridge/ops/attention/model.h"
#include "ridge/ops/attention/validate_layout.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {
Reason unsupported_reason(const AttentionBackwardProblem& problem) {
  AttentionProblem p = problem.forward;
  if (auto why = validate_uniform_sequences(p)) return why;
  p.o = problem.dq;  // o is only read
  if (p.cap > 0) return fmt::format("expected scores without a cap in attention's gradients, found {}", p.cap);
  if (!p.moves_with_rows)
    return "expected a mask that moves with the rows in attention's gradients, found one band for all";
  if (auto why = validate_layout("dq", problem.dq, p, p.heads, p.rows)) return why;
  if (auto why = unsupported_reason(p)) return why;
  if (auto why = validate_layout("dk", problem.dk, p, p.key_heads, p.keys)) return why;
  return validate_layout("dv", problem.dv, p, p.key_heads, p.keys);
}

// Memory traffic also includes the partial sums of dq, which are written and read.
CpuForecast cpu_forecast(const AttentionBackwardProblem& p, int) {
  return {.kernel = "attention_backward", .vector_flops = flops(p)};
}

}  // namespace ridge::ops
