// Checks the synchronisation of every attention kernel on Hopper under a thousand event orders, and that a removed wait
// is detected.
#include <gtest/gtest.h>

#include <functional>

#include "ridge/base/float16.h"
#include "ridge/ops/attention/attention.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/pace.h"
#include "ridge/tile/trace/record_steps.h"

namespace ridge::ops {
namespace {

using tile::trace::Noted, tile::trace::Program, tile::trace::Do, tile::trace::Step, tile::trace::check_schedules;

AttentionProblem causal(const AttentionConfig& c) {
  AttentionProblem p{.outer = 1, .heads = 2, .key_heads = 1, .rows = 2 * c.m, .keys = 3 * c.kv, .width = c.d};
  p.high = p.keys - p.rows;
  return p;
}

template <class Kernel> Program recorded(const AttentionProblem& p, int blocks, const std::vector<int>& lengths = {}) {
  typename Kernel::Globals g{};
  set_numbers(g, p);
  if constexpr (Kernel::config.ragged) {
    g.q.inner = p.heads;
    g.q.rows = p.rows;
    set_lengths(g, p, lengths.data());
  }
  const tile::StepOrder order{static_cast<int>(p.outer * p.heads), static_cast<int>(p.rows), Kernel::config.m, 2, 1};
  return tile::trace::record_steps<Kernel>({.kernel = "attention", .order = order, .blocks = blocks}, g);
}

template <std::size_t i> void check_config() {
  using Kernel = Attention<attention_menu[i], Noted<Bf16>>;
  for (const int blocks : {1, 3}) {
    const Program program = recorded<Kernel>(causal(attention_menu[i]), blocks);
    EXPECT_EQ(program.fault, "") << i;
    const auto result = check_schedules(program, 1000);
    EXPECT_EQ(result.first, "") << "config " << i << ", " << blocks << " blocks: " << result.faulty;
    EXPECT_EQ(result.schedules, 1000);
  }
}
template <std::size_t... i> void check_menu(std::index_sequence<i...>) { (check_config<i>(), ...); }

TEST(AttentionTrace, IsRightUnderAThousandOrders) { check_menu(std::make_index_sequence<attention_menu.size()>{}); }

// Sequences of one key, of a part of the first step, of two steps and of the maximum length.
template <std::size_t i> void check_ragged() {
  constexpr AttentionConfig c = ragged(attention_menu[i]);
  AttentionProblem p = causal(c);
  p.outer = 4;
  p.heads = 1;
  p.high = -p.rows;
  p.lengths = {.limit = 0, .high = true};
  for (const int blocks : {1, 3}) {
    const Program program = recorded<Attention<c, Noted<Bf16>>>(p, blocks, {1, c.kv / 2, c.kv + 1, 3 * c.kv});
    EXPECT_EQ(program.fault, "") << i;
    const auto result = check_schedules(program, 1000);
    EXPECT_EQ(result.first, "") << "config " << i << ", " << blocks << " blocks: " << result.faulty;
  }
}
template <std::size_t... i> void check_all_ragged(std::index_sequence<i...>) { (check_ragged<i>(), ...); }

TEST(AttentionTrace, IsRightWhereSequencesDiffer) {
  check_all_ragged(std::make_index_sequence<attention_menu.size()>{});
}

// Steps after the end of a sequence are skipped, not only masked.
TEST(AttentionTrace, GoesNoFurtherThanASequence) {
  constexpr AttentionConfig c = ragged(attention_menu[1]);
  AttentionProblem p{.outer = 3, .rows = c.m, .keys = 5 * c.kv, .width = c.d};
  p.lengths = {.limit = 0};
  const Program program = recorded<Attention<c, Noted<Bf16>>>(p, 2, {1, 2 * c.kv, 2 * c.kv + 1});
  std::int64_t loaded = 0;
  for (const auto& thread : program.threads)
    for (const Step& step : thread.steps)
      if (step.what == Do::copy) loaded += step.amount;
  EXPECT_EQ(loaded, 2 * p.width * (p.outer * p.rows + 2 * (1 + 2 + 3) * c.kv));
}

// Each product of each item is recorded once: 4 * m * kv * d FLOP per step over all warpgroups.
TEST(AttentionTrace, CountsItsProducts) {
  constexpr AttentionConfig c = attention_menu[1];
  AttentionProblem p{.outer = 1, .heads = 3, .key_heads = 3, .rows = 2 * c.m, .keys = 5 * c.kv, .width = c.d};
  const Program program = recorded<Attention<c, Noted<Bf16>>>(p, 2);
  std::int64_t flops = 0, loaded = 0, stored = 0;
  for (const auto& thread : program.threads)
    for (const Step& step : thread.steps) {
      if (step.what == Do::multiply && thread.leads) flops += step.amount;
      if (step.what == Do::copy) loaded += step.amount;
      if (step.what == Do::store) stored += step.amount;
    }
  EXPECT_EQ(flops, 4 * p.heads * p.rows * p.keys * p.width);
  EXPECT_EQ(loaded, 2 * p.width * p.heads * (p.rows + 2 * p.keys * (p.rows / c.m)));
  EXPECT_EQ(stored, 2 * p.width * p.heads * p.rows);
}

// The weights of the next step overwrite registers that the products with the values still read.
template <AttentionConfig C, class T> struct Hasty : Attention<C, T> {
  using Base = Attention<C, T>;
  template <class At> static void compute(At& at, typename Base::State& x, const typename Base::Held& h,
                                          const typename Base::Stage& s, const typename Base::Globals&) {
    if constexpr (At::last) {
      at.mma(x.o, x.weights, s.v);
    } else {
      typename Base::template Sums<C.kv> p;
      at.mma(p, h.q, tile::transposed(s.k));
      if constexpr (!At::first) at.mma(x.o, x.weights, s.v);
      at.settle(p);
      at.copy(x.weights, p);
      if constexpr (!At::first) at.settle(x.o);
    }
  }
};
TEST(AttentionTrace, CatchesRegistersThatAreOverwrittenTooEarly) {
  constexpr AttentionConfig c = attention_menu[1];
  const auto result = check_schedules(recorded<Hasty<c, Noted<Bf16>>>(causal(c), 1), 200);
  EXPECT_EQ(result.faulty, 200);
  EXPECT_NE(result.first.find("operands"), std::string::npos) << result.first;
}

// Returns the first error of a program without the steps that `drop` selects.
std::string without(Program p, const std::function<bool(const Program&, const Step&)>& drop) {
  const Program whole = p;
  std::size_t dropped = 0;
  for (auto& thread : p.threads) dropped += std::erase_if(thread.steps, [&](const Step& s) { return drop(whole, s); });
  EXPECT_GT(dropped, 0U) << "no step was removed";
  const auto result = check_schedules(p, 200);
  EXPECT_GT(result.faulty, 100) << result.first;
  return result.first;
}
bool of_barrier(const Program& p, const Step& s, Do what, const std::string& part) {
  return s.what == what && p.barriers[static_cast<std::size_t>(s.object)].name.find(part) != std::string::npos;
}

TEST(AttentionTrace, CatchesEachForgottenWait) {
  constexpr AttentionConfig c = attention_menu[1];
  const Program clean = recorded<Attention<c, Noted<Bf16>>>(causal(c), 1);
  ASSERT_EQ(check_schedules(clean, 200).first, "");
  for (const char* const barrier : {"ring 0 slot 0 full", "ring 1 slot 1 full", "ring 0 slot 1 empty",
                                    "ring 1 slot 0 empty", "resident 0 full", "resident 1 empty", "item 0 full"})
    EXPECT_NE(without(clean, [&](const Program& p, const Step& s) { return of_barrier(p, s, Do::wait, barrier); }), "")
        << barrier;
  for (const Do what : {Do::fence_sums, Do::wait_multiply, Do::wait_read, Do::fence_proxy, Do::join, Do::arrive})
    EXPECT_NE(without(clean, [&](const Program&, const Step& s) { return s.what == what; }), "")
        << static_cast<int>(what);
}

// With one step per item, the producer is two items ahead before a warpgroup takes one. (From the third item on, the
// buffers for queries also make it wait.)
TEST(AttentionTrace, CatchesAnItemThatIsOverwritten) {
  constexpr AttentionConfig c = attention_menu[1];
  const AttentionProblem p{.rows = 6 * c.m, .keys = c.kv, .width = c.d};
  const Program clean = recorded<Attention<c, Noted<Bf16>>>(p, 1);
  ASSERT_EQ(check_schedules(clean, 200).first, "");
  const auto first = [](const Program& x, const Step& s) { return of_barrier(x, s, Do::wait, "item 0 empty"); };
  EXPECT_NE(without(clean, first), "");
}

}  // namespace
}  // namespace ridge::ops
