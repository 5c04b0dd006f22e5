// Step 3: the ring. The kernel is complete (ops/product/matmul.h is step 2 with dtypes); the ring determines how many
// stages are in flight. A stage of 128 x 128 x 64 in bf16 is 32 KiB for 2.1 MFLOP. One producer fills the slots of the
// ring, two warpgroups multiply. On Hopper the slots are in shared memory. Here the trace target records every wait and
// arrival, checks them under shuffled orders, and estimates their time.
#include <algorithm>
#include <string>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/ops/product/trace.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record.h"
#include "ridge/tile/trace/timing_model.h"
#include "tutorial.h"

using namespace ridge::tile;
using ridge::ops::Matmul, ridge::ops::MatmulConfig;

template <int slots> constexpr MatmulConfig ring{.m = 128, .n = 128, .k = 64, .stages = slots, .consumers = 2};

template <int slots> trace::RecordedProgram recorded() {  // two tiles, each 32 stages deep
  return trace::record_program<Matmul<ring<slots>, ridge::Bf16, ridge::Bf16, ridge::Bf16>>(
      {.kernel = "matmul", .sizes = {.m = 256, .n = 128, .k = 2048}});
}

// Model: 64 bytes per tick, 600 ticks of latency, 8192 FLOPs per tick. The port is always busy if 600 * 64 bytes are in
// flight in addition to the stage that is being multiplied.
template <int slots> bool show() {
  const trace::RecordedProgram program = recorded<slots>();
  const ridge::Timeline t = trace::simulate_timeline(program, {});
  Index port = 0;
  for (const ridge::Event& e : t.events)
    if (t.lanes[e.lane] == "copies") port += e.end - e.begin;
  const trace::CheckResult result = trace::check_schedules(program, 100);
  std::printf("%d slots %4d KiB %8lld ticks, port busy %3lld %%, %d of %d orders faulty\n", slots, slots * 32,
              static_cast<long long>(t.end_tick()), static_cast<long long>(100 * port / t.end_tick()), result.failed,
              result.schedules);
  return result.failed == 0;
}

// Shows why the waits are needed: the same program, but the producer does not wait for a slot to be released.
std::string faulty() {
  trace::RecordedProgram program = recorded<3>();
  std::erase_if(program.threads[0].steps, [&](const trace::RecordedStep& s) {
    return s.what == trace::RecordedStepKind::wait && program.barriers[s.object].name.ends_with("empty");
  });
  return trace::check_schedules(program, 100).first_error;
}

int main() {
  bool right = show<2>() & show<3>() & show<4>() & show<6>();
  const std::string fault = faulty();
  std::printf("%s\n", fault.c_str());
  right &= fault.find("missing: the producer's wait for the slot to be released") != std::string::npos;

  // A ring hides latency but does not reduce bytes. Two blocks that share loads do: each loads half of B's tile.
  constexpr Index n = 4096;
  using ridge::DType;
  const ridge::ops::MatmulProblem p{1, n, n, n, {DType::bf16, n, 1}, {DType::bf16, 1, n}, {DType::bf16, n, 1}};
  const auto alone = count_tile_traffic(p, {}), pair = count_tile_traffic(p, {.cluster_m = 2});
  std::printf("4096^3 alone   A %.0f MB, B %.0f MB\n", tutorial::mb(alone.a.global_bytes),
              tutorial::mb(alone.b.global_bytes));
  std::printf("       in pairs A %.0f MB, B %.0f MB\n", tutorial::mb(pair.a.global_bytes),
              tutorial::mb(pair.b.global_bytes));
  right &= pair.a == alone.a && 2 * pair.b.global_bytes == alone.b.global_bytes;
  return tutorial::ends(right);
}
