// Checks the synchronisation of every attention kernel on Hopper under a thousand event orders, and that a removed wait
// is detected.
#include <gtest/gtest.h>

#include <functional>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/attention.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record_steps.h"
#include "ridge/tile/trace/timing_model.h"

namespace ridge::ops {
namespace {

using tile::trace::RecordedElement, tile::trace::RecordedProgram, tile::trace::RecordedStepKind,
    tile::trace::RecordedStep, tile::trace::check_schedules;

AttentionProblem causal_problem(const AttentionConfig& c) {
  AttentionProblem p{.outer = 1, .heads = 2, .key_heads = 1, .rows = 2 * c.m, .keys = 3 * c.kv, .width = c.d};
  p.high = p.keys - p.rows;
  return p;
}

template <class Kernel>
RecordedProgram record_attention(const AttentionProblem& p, int blocks, const std::vector<int>& lengths = {}) {
  typename Kernel::Globals g{};
  set_scalar_args(g, p);
  if constexpr (Kernel::config.ragged) {
    g.q.inner = p.heads;
    g.q.rows = p.rows;
    set_ragged_args(g, p, lengths.data());
  }
  const tile::ItemOrder order{static_cast<int>(p.outer * p.heads), static_cast<int>(p.rows), Kernel::config.m, 2, 1};
  return tile::trace::record_steps<Kernel>({.kernel = "attention", .order = order, .blocks = blocks}, g);
}

template <std::size_t i> void check_config() {
  using Kernel = Attention<attention_kernel_configs[i], RecordedElement<Bf16>>;
  for (const int blocks : {1, 3}) {
    const RecordedProgram program = record_attention<Kernel>(causal_problem(attention_kernel_configs[i]), blocks);
    EXPECT_EQ(program.error, "") << i;
    const auto result = check_schedules(program, 1000);
    EXPECT_EQ(result.first_error, "") << "config " << i << ", " << blocks << " blocks: " << result.failed;
    EXPECT_EQ(result.schedules, 1000);
  }
}
template <std::size_t... i> void check_all_configs(std::index_sequence<i...>) { (check_config<i>(), ...); }

TEST(AttentionTrace, HasNoRaceInAThousandSchedules) {
  check_all_configs(std::make_index_sequence<attention_kernel_configs.size()>{});
}

// Checks sequences of one key, of half a step, of two steps and of the maximum length.
template <std::size_t i> void check_ragged() {
  constexpr AttentionConfig c = make_ragged(attention_kernel_configs[i]);
  AttentionProblem p = causal_problem(c);
  p.outer = 4;
  p.heads = 1;
  p.high = -p.rows;
  p.lengths = {.length_offset = 0, .high_from_length = true};
  for (const int blocks : {1, 3}) {
    const RecordedProgram program =
        record_attention<Attention<c, RecordedElement<Bf16>>>(p, blocks, {1, c.kv / 2, c.kv + 1, 3 * c.kv});
    EXPECT_EQ(program.error, "") << i;
    const auto result = check_schedules(program, 1000);
    EXPECT_EQ(result.first_error, "") << "config " << i << ", " << blocks << " blocks: " << result.failed;
  }
}
template <std::size_t... i> void check_all_ragged(std::index_sequence<i...>) { (check_ragged<i>(), ...); }

TEST(AttentionTrace, RaggedKernelsHaveNoRace) {
  check_all_ragged(std::make_index_sequence<attention_kernel_configs.size()>{});
}

// Steps after the end of a sequence are skipped, not only masked.
TEST(AttentionTrace, SkipsStepsAfterTheEndOfASequence) {
  constexpr AttentionConfig c = make_ragged(attention_kernel_configs[1]);
  AttentionProblem p{.outer = 3, .rows = c.m, .keys = 5 * c.kv, .width = c.d};
  p.lengths = {.length_offset = 0};
  const RecordedProgram program =
      record_attention<Attention<c, RecordedElement<Bf16>>>(p, 2, {1, 2 * c.kv, 2 * c.kv + 1});
  std::int64_t loaded = 0;
  for (const auto& thread : program.threads)
    for (const RecordedStep& step : thread.steps)
      if (step.what == RecordedStepKind::copy) loaded += step.amount;
  EXPECT_EQ(loaded, 2 * p.width * (p.outer * p.rows + 2 * (1 + 2 + 3) * c.kv));
}

// Each product of each item is recorded once: 4 * m * kv * d FLOP per step over all warpgroups.
TEST(AttentionTrace, RecordsEachProductOnce) {
  constexpr AttentionConfig c = attention_kernel_configs[1];
  AttentionProblem p{.outer = 1, .heads = 3, .key_heads = 3, .rows = 2 * c.m, .keys = 5 * c.kv, .width = c.d};
  const RecordedProgram program = record_attention<Attention<c, RecordedElement<Bf16>>>(p, 2);
  std::int64_t flops = 0, loaded = 0, stored = 0;
  for (const auto& thread : program.threads)
    for (const RecordedStep& step : thread.steps) {
      if (step.what == RecordedStepKind::multiply && thread.leads) flops += step.amount;
      if (step.what == RecordedStepKind::copy) loaded += step.amount;
      if (step.what == RecordedStepKind::store) stored += step.amount;
    }
  EXPECT_EQ(flops, 4 * p.heads * p.rows * p.keys * p.width);
  EXPECT_EQ(loaded, 2 * p.width * p.heads * (p.rows + 2 * p.keys * (p.rows / c.m)));
  EXPECT_EQ(stored, 2 * p.width * p.heads * p.rows);
}

// A kernel with a race: the next step's weights overwrite registers that the product with the values still reads.
template <AttentionConfig C, class T> struct WithoutWait : Attention<C, T> {
  using Base = Attention<C, T>;
  template <class At> static void compute(At& at, typename Base::State& x, const typename Base::Resident& h,
                                          const typename Base::Stage& s, const typename Base::Globals&) {
    if constexpr (At::last) {
      at.mma(x.o, x.weights, s.v);
    } else {
      typename Base::template SumTile<C.kv> p;
      at.mma(p, h.q, tile::transposed(s.k));
      if constexpr (!At::first) at.mma(x.o, x.weights, s.v);
      at.wait_for_product(p);
      at.copy(x.weights, p);
      if constexpr (!At::first) at.wait_for_product(x.o);
    }
  }
};
TEST(AttentionTrace, DetectsOperandsOverwrittenTooEarly) {
  constexpr AttentionConfig c = attention_kernel_configs[1];
  const auto result =
      check_schedules(record_attention<WithoutWait<c, RecordedElement<Bf16>>>(causal_problem(c), 1), 200);
  EXPECT_EQ(result.failed, 200);
  EXPECT_NE(result.first_error.find("operands"), std::string::npos) << result.first_error;
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
  EXPECT_GT(result.failed, 100) << result.first_error;
  return result.first_error;
}
bool is_at_barrier(const RecordedProgram& p, const RecordedStep& s, RecordedStepKind what, const std::string& part) {
  return s.what == what && p.barriers[s.object].name.find(part) != std::string::npos;
}

TEST(AttentionTrace, DetectsEachRemovedWait) {
  constexpr AttentionConfig c = attention_kernel_configs[1];
  const RecordedProgram clean = record_attention<Attention<c, RecordedElement<Bf16>>>(causal_problem(c), 1);
  ASSERT_EQ(check_schedules(clean, 200).first_error, "");
  for (const char* const barrier : {"ring 0 slot 0 full", "ring 1 slot 1 full", "ring 0 slot 1 empty",
                                    "ring 1 slot 0 empty", "resident 0 full", "resident 1 empty", "item 0 full"})
    EXPECT_NE(error_without(clean,
                            [&](const RecordedProgram& p, const RecordedStep& s) {
                              return is_at_barrier(p, s, RecordedStepKind::wait, barrier);
                            }),
              "")
        << barrier;
  for (const RecordedStepKind what :
       {RecordedStepKind::fence_sums, RecordedStepKind::wait_multiply, RecordedStepKind::wait_read,
        RecordedStepKind::fence_proxy, RecordedStepKind::bar_arrive, RecordedStepKind::arrive})
    EXPECT_NE(error_without(clean, [&](const RecordedProgram&, const RecordedStep& s) { return s.what == what; }), "")
        << static_cast<int>(what);
}

// With one step per item, the producer may be two items ahead of the warpgroups. (From the third item on, it also waits
// for the buffers of queries.)
TEST(AttentionTrace, DetectsAnOverwrittenItem) {
  constexpr AttentionConfig c = attention_kernel_configs[1];
  const AttentionProblem p{.rows = 6 * c.m, .keys = c.kv, .width = c.d};
  const RecordedProgram clean = record_attention<Attention<c, RecordedElement<Bf16>>>(p, 1);
  ASSERT_EQ(check_schedules(clean, 200).first_error, "");
  const auto first = [](const RecordedProgram& x, const RecordedStep& s) {
    return is_at_barrier(x, s, RecordedStepKind::wait, "item 0 empty");
  };
  EXPECT_NE(error_without(clean, first), "");
}

}  // namespace
}  // namespace ridge::ops
