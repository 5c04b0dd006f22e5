// Step 3: the ring. The text is finished (ops/product/matmul.h is step 2 with dtypes); what changes is how much of it
// is on its way at once. A stage of 128 x 128 x 64 in bf16 is 32 KiB for 2.1 MFLOP; the ring holds a few of them, one
// producer fills its slots and two groups of threads multiply. On Hopper the slots are shared memory; here the trace
// target writes down every wait and arrival, checks them under shuffled orders, and says how long they would take.
#include <algorithm>
#include <string>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/ops/product/trace.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/pace.h"
#include "ridge/tile/trace/record.h"
#include "tutorial.h"

using namespace ridge::tile;
using ridge::ops::Matmul, ridge::ops::MatmulConfig;

template <int slots> constexpr MatmulConfig ring{.m = 128, .n = 128, .k = 64, .stages = slots, .consumers = 2};

template <int slots> trace::Program recorded() {  // two tiles, each 32 stages deep
  return trace::record<Matmul<ring<slots>, ridge::Bf16, ridge::Bf16, ridge::Bf16>>(
      {.kernel = "matmul", .sizes = {.m = 256, .n = 128, .k = 2048}});
}

// 64 bytes a tick arrive 600 ticks after they were asked for, 8192 FLOPs a tick: the port can be busy all the time if
// 600 * 64 bytes beyond the stage that is being multiplied have been asked for.
template <int slots> bool show() {
  const trace::Program program = recorded<slots>();
  const ridge::Timeline t = trace::pace(program, {});
  Index port = 0;
  for (const ridge::Event& e : t.events)
    if (t.lanes[e.lane] == "copies") port += e.end - e.begin;
  const trace::CheckResult result = trace::check_schedules(program, 100);
  std::printf("%d slots %4d KiB %8lld ticks, port busy %3lld %%, %d of %d orders faulty\n", slots, slots * 32,
              static_cast<long long>(t.end()), static_cast<long long>(100 * port / t.end()), result.faulty,
              result.schedules);
  return result.faulty == 0;
}

// What the ring's waits are for: the same program, where the producer does not wait for a slot to be given back.
std::string faulty() {
  trace::Program program = recorded<3>();
  std::erase_if(program.threads[0].steps, [&](const trace::Step& s) {
    return s.what == trace::Do::wait && program.barriers[s.object].name.ends_with("empty");
  });
  return trace::check_schedules(program, 100).first;
}

int main() {
  bool right = show<2>() & show<3>() & show<4>() & show<6>();
  const std::string fault = faulty();
  std::printf("%s\n", fault.c_str());
  right &= fault.find("missing: the producer's wait for the slot to be given back") != std::string::npos;

  // A ring hides waiting, it moves no byte less. Two blocks that share what they load do: B's half, in each of them.
  constexpr Index n = 4096;
  using ridge::DType;
  const ridge::ops::MatmulProblem p{1, n, n, n, {DType::bf16, n, 1}, {DType::bf16, 1, n}, {DType::bf16, n, 1}};
  const auto alone = trace_tiles(p, {}), pair = trace_tiles(p, {.cluster_m = 2});
  std::printf("4096^3 alone   A %.0f MB, B %.0f MB\n", tutorial::mb(alone.a.global_bytes),
              tutorial::mb(alone.b.global_bytes));
  std::printf("       in pairs A %.0f MB, B %.0f MB\n", tutorial::mb(pair.a.global_bytes),
              tutorial::mb(pair.b.global_bytes));
  right &= pair.a == alone.a && 2 * pair.b.global_bytes == alone.b.global_bytes;
  return tutorial::ends(right);
}
