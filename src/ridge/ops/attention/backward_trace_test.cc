// Checks the synchronisation of every backward kernel on Hopper, with ordered adds and without, under a thousand event
// orders, and that a removed wait is detected.
#include <gtest/gtest.h>

#include <functional>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/backward.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record_steps.h"

namespace ridge::ops {
namespace {

using tile::trace::RecordedElement, tile::trace::RecordedProgram, tile::trace::RecordedStepKind,
    tile::trace::RecordedStep, tile::trace::check_schedules;

constexpr AttentionBackwardConfig with_order(AttentionBackwardConfig config, bool ordered) {
  config.ordered = ordered;
  return config;
}

// Records two query heads on one key head, with three key tiles and a causal mask.
template <class Kernel> RecordedProgram record_backward(int blocks) {
  constexpr auto c = Kernel::config;
  typename Kernel::Globals g{};
  g.rows = 3 * c.m;
  g.band = {-(1 << 30), 0, 3 * c.m};
  g.heads_per_key_head = 2;
  tile::ItemOrder order{1, 3 * c.m, c.m, 1, 1};
  order.ascending = !c.ordered;
  return tile::trace::record_steps<Kernel>({.kernel = "attention backward", .order = order, .blocks = blocks}, g);
}

template <std::size_t i, bool ordered> void check_config() {
  using Kernel = AttentionBackward<with_order(attention_backward_kernel_configs[i], ordered), RecordedElement<Bf16>>;
  for (const int blocks : {1, 3}) {
    const RecordedProgram program = record_backward<Kernel>(blocks);
    EXPECT_EQ(program.error, "") << i;
    const auto result = check_schedules(program, 1000);
    EXPECT_EQ(result.first_error, "") << "config " << i << (ordered ? ", in order, " : ", ") << blocks
                                      << " blocks: " << result.failed;
    EXPECT_EQ(result.schedules, 1000);
  }
}
template <bool ordered, std::size_t... i> void check_all_configs(std::index_sequence<i...>) {
  (check_config<i, ordered>(), ...);
}
using AllBackwardConfigs = std::make_index_sequence<attention_backward_kernel_configs.size()>;

TEST(AttentionBackwardTrace, HasNoRaceInAThousandSchedules) { check_all_configs<false>(AllBackwardConfigs{}); }
TEST(AttentionBackwardTrace, OrderedAddsHaveNoRaceInAThousandSchedules) {
  check_all_configs<true>(AllBackwardConfigs{});
}

// Each step has five products.
TEST(AttentionBackwardTrace, RecordsEachProductOnce) {
  constexpr AttentionBackwardConfig c = attention_backward_kernel_configs[1];
  const RecordedProgram program = record_backward<AttentionBackward<c, RecordedElement<Bf16>>>(2);
  std::int64_t flops = 0;
  for (const auto& thread : program.threads)
    for (const RecordedStep& step : thread.steps)
      if (step.what == RecordedStepKind::multiply && thread.leads) flops += step.amount;
  const std::int64_t steps = 2 * (6 + 4 + 2);  // Two heads: tiles of 64 rows that see some of 128 keys
  EXPECT_EQ(flops, steps * 10 * c.m * c.q * c.d);
}

// Returns the first error of a program without the steps that `drop` selects.
std::string error_without(RecordedProgram p,
                          const std::function<bool(const RecordedProgram&, const RecordedStep&)>& drop) {
  const RecordedProgram full_program = p;
  std::size_t dropped = 0;
  for (auto& thread : p.threads)
    dropped += std::erase_if(thread.steps, [&](const RecordedStep& s) { return drop(full_program, s); });
  EXPECT_GT(dropped, 0U) << "no step was removed";
  const auto result = check_schedules(p, 200);
  EXPECT_GT(result.failed, 50) << result.first_error;
  return result.first_error;
}

// The ring slot of row_stats is released before that of q, and a load of q waits for both; so the wait for an empty
// slot of ring 2 is not tested.
TEST(AttentionBackwardTrace, DetectsEachRemovedWait) {
  const RecordedProgram clean =
      record_backward<AttentionBackward<attention_backward_kernel_configs[1], RecordedElement<Bf16>>>(1);
  ASSERT_EQ(check_schedules(clean, 200).first_error, "");
  for (const char* const barrier : {"ring 0 slot 0 full", "ring 1 slot 1 full", "ring 2 slot 0 full",
                                    "ring 0 slot 1 empty", "resident 0 full", "resident 0 empty"}) {
    const auto of = [&](const RecordedProgram& p, const RecordedStep& s) {
      return s.what == RecordedStepKind::wait && p.barriers[s.object].name.find(barrier) != std::string::npos;
    };
    EXPECT_NE(error_without(clean, of), "") << barrier;
  }
  for (const RecordedStepKind what :
       {RecordedStepKind::fence_sums, RecordedStepKind::wait_multiply, RecordedStepKind::fence_proxy,
        RecordedStepKind::bar_arrive, RecordedStepKind::arrive})
    EXPECT_NE(error_without(clean, [&](const RecordedProgram&, const RecordedStep& s) { return s.what == what; }), "")
        << static_cast<int>(what);
}

// With ordered adds, the check detects an add that does not wait for its turn and a turn that is passed on too early.
TEST(AttentionBackwardTrace, DetectsAddsOutOfOrder) {
  using Kernel = AttentionBackward<with_order(attention_backward_kernel_configs[1], true), RecordedElement<Bf16>>;
  const RecordedProgram clean = record_backward<Kernel>(3);
  for (const char* const barrier : {"turn granted", "turn finished"}) {
    const auto of = [&](const RecordedProgram& p, const RecordedStep& s) {
      return s.what == RecordedStepKind::wait && p.barriers[s.object].name.find(barrier) != std::string::npos;
    };
    EXPECT_NE(error_without(clean, of), "") << barrier;
  }
  EXPECT_NE(error_without(
                clean, [](const RecordedProgram&, const RecordedStep& s) { return s.what == RecordedStepKind::poll; }),
            "");
}

}  // namespace
}  // namespace ridge::ops
