// Step 6: the same attention in one kernel, with the definition that ships: its steps loop over the keys, and a larger
// score rescales the sums (ops/attention/attention.h). The trace target counts its bytes and checks its waits in a
// thousand orders; the CPU runs it.
#include "ridge/ops/attention/attention.h"
#include "ridge/ops/attention/cpu.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record_steps.h"
#include "tutorial.h"

using namespace ridge::tile;
using ridge::ops::Attention, ridge::ops::AttentionConfig, ridge::ops::AttentionProblem;

constexpr Index d = 64;
using Kernel =
    Attention<AttentionConfig{.m = 128, .kv = 128, .d = d, .resident_slots = 2}, trace::RecordedElement<float>>;

trace::RecordedProgram recorded(Index t) {
  typename Kernel::Globals g{};
  set_scalar_args(g, AttentionProblem{.rows = t, .keys = t, .width = d});
  const ItemOrder order{.matrices = 1, .rows = static_cast<int>(t), .tile_rows = 128};
  return trace::record_steps<Kernel>({.kernel = "attention", .order = order}, g);
}

bool show(Index t) {
  Index bytes = 0, flops = 0;
  for (const trace::RecordedThread& thread : recorded(t).threads)
    for (const trace::RecordedStep& step : thread.steps) {
      if (step.what == trace::RecordedStepKind::copy || step.what == trace::RecordedStepKind::store)
        bytes += step.amount;
      if (step.what == trace::RecordedStepKind::multiply && thread.leads) flops += step.amount;
    }
  std::printf("%5lld %8.1f %8.2f %6.1f\n", static_cast<long long>(t), tutorial::mb(flops), tutorial::mb(bytes),
              static_cast<double>(flops) / static_cast<double>(bytes));
  return flops == 4 * t * t * d && bytes == 4 * d * (t + t + 2 * t * (t / 128));  // the last columns of step 5
}

int main() {
  std::printf("          work    one kernel\n    T    MFLOP       MB FLOP/B\n");
  bool right = show(256) & show(1024) & show(4096);
  const trace::CheckResult result = trace::check_schedules(recorded(512));
  std::printf("%d orders of its waits, %d faulty\n", result.schedules, result.failed);
  right &= result.failed == 0;
  constexpr Index t = 300;
  const std::vector<float> q = tutorial::filled(t * d, 1), k = tutorial::filled(t * d, 2),
                           v = tutorial::filled(t * d, 3);
  std::vector<float> out(t * d, -1);
  AttentionProblem p{.dtype = ridge::DType::f32, .rows = t, .keys = t, .width = d};
  p.q = p.k = p.v = p.o = {.outer = t * d, .head = t * d, .row = d};
  ridge::ops::attention(p, {.q = q.data(), .k = k.data(), .v = v.data(), .o = out.data()}, 2);
  right &= tutorial::worst_of_attention(t, d, 1, q.data(), k.data(), v.data(), out.data()) < 1e-5;
  return tutorial::ends(right);
}
