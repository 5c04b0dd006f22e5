// Tests the search among layouts against predictions of each layout one by one.
#include "ridge/plan/model/layouts.h"

#include <gtest/gtest.h>

#include <set>

#include "ridge/plan/model/layout_predictor.h"

namespace ridge {
namespace {

model::ModelConfig find_shipped(const std::string& name) { return *model::find_config(name); }

LayoutRequest make_layout_request(std::vector<std::int64_t> chips, std::int64_t context, std::int64_t batch) {
  LayoutRequest out{.chips = std::move(chips)};
  out.counts.context = context;
  out.counts.batch = batch;
  return out;
}

// Returns the answer for one layout, as the command without a search gives it.
ModelOnMachine predict_by_hand(const model::ModelConfig& config, const LayoutRequest& request,
                               const model::ChipLayout& layout, std::int64_t batch, const Machine& machine) {
  ModelRequest one{.counts = request.counts,
                   .phase = request.phase,
                   .tensor_parallel = layout.tensor,
                   .expert_parallel = layout.expert,
                   .data_parallel = layout.data,
                   .pipeline_parallel = layout.pipeline};
  one.counts.batch = batch;
  auto answer = predict_model(config, one, machine);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().to_string());
  return *std::move(answer);
}

LayoutRanking rank(const model::ModelConfig& config, const LayoutRequest& request, const std::string& machine) {
  auto out = rank_layouts(config, request, *find_machine(machine));
  EXPECT_TRUE(out) << (out ? "" : out.error().to_string());
  return *std::move(out);
}

using Ranks = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
Ranks ranks_of(const model::ChipLayout& x) { return {x.tensor, x.expert, x.data, x.pipeline}; }

TEST(LayoutsTest, RanksMultiplyToTheChips) {
  for (const char* name : {"llama_3_70b", "deepseek_v3", "qwen3_30b_a3b", "gemma_3_1b"})
    for (const std::int64_t chips : {1, 6, 12, 64}) {
      std::set<Ranks> seen;
      for (const model::ChipLayout& x : list_layouts(find_shipped(name), {.batch = 64, .context = 8}, chips)) {
        EXPECT_EQ(x.tensor * x.pipeline * x.data, chips) << name;
        EXPECT_EQ(x.data % x.expert, 0) << name;
        EXPECT_TRUE(x.tensor == 1 || x.expert == 1) << name;
        EXPECT_TRUE(seen.insert(ranks_of(x)).second) << name;
      }
      EXPECT_FALSE(seen.empty()) << name;
    }
  const model::StepOptions options{.batch = 64, .context = 8};
  // Three factors of 2^6 are 28; 64 heads, 80 layers and 64 sequences allow all.
  EXPECT_EQ(list_layouts(find_shipped("llama_3_70b"), options, 64).size(), 28u);
  // Two sequences leave one or two data ranks: 7 + 6.
  EXPECT_EQ(list_layouts(find_shipped("llama_3_70b"), {.batch = 2, .context = 8}, 64).size(), 13u);
  // 28 without experts' ranks (the 61 layers forbid 64 stages), and for --tp 1 with d data ranks the divisors of d
  // above 1, 1 to 6 for d = 2 to 64, of which 64 / d stages are allowed: 21.
  EXPECT_EQ(list_layouts(find_shipped("deepseek_v3"), options, 64).size(), 27u + 21u);
}

TEST(LayoutsTest, RankingAgreesWithEachLayoutByHand) {
  struct Case {
    const char *model, *machine;
    LayoutRequest request;
  };
  std::vector<Case> cases{{"llama_3_70b", "h100", make_layout_request({16}, 4096, 24)},
                          {"qwen3_30b_a3b", "h200", make_layout_request({8}, 4096, 64)},
                          {"llama_3_8b", "h200", make_layout_request({1, 4}, 2048, 6)}};
  cases.push_back(cases[2]);
  cases.back().request.phase = ModelPhase::prefill;
  for (const Case& each : cases) {
    const model::ModelConfig config = find_shipped(each.model);
    const Machine machine = *find_machine(each.machine);
    const LayoutRanking ranking = rank(config, each.request, each.machine);
    std::size_t count = 0;
    for (const auto* list : {&ranking.layouts, &ranking.unfit}) {
      for (const LayoutTimes& x : *list) {
        const auto by_hand = predict_by_hand(config, each.request, x.layout, each.request.counts.batch, machine);
        EXPECT_DOUBLE_EQ(x.step_s(), by_hand.step().bound_s);
        EXPECT_EQ(x.first_token_s.has_value(), by_hand.fits() || x.phase == ModelPhase::prefill);
        EXPECT_DOUBLE_EQ(x.first_token_s.value_or(by_hand.prefill.bound_s), by_hand.prefill.bound_s);
        EXPECT_DOUBLE_EQ(x.memory_bytes, by_hand.memory_bytes());
        EXPECT_EQ(list == &ranking.layouts, by_hand.fits());
        const LayoutTimes& best = ranking.layouts.front();
        const bool is_decode = x.phase == ModelPhase::decode;
        const bool is_best = is_decode ? best.tokens_per_s_per_chip() >= by_hand.tokens_per_s_per_chip() * (1 - 1e-12)
                                       : best.step_s() <= by_hand.prefill.bound_s * (1 + 1e-12);
        EXPECT_TRUE(is_best || !by_hand.fits());
        EXPECT_GE(x.network_share, 0);
        EXPECT_LT(x.network_share, 1);
      }
      count += list->size();
    }
    std::size_t listed = 0;
    for (const std::int64_t chips : each.request.chips)
      listed += list_layouts(config, {.batch = each.request.counts.batch, .context = 8}, chips).size();
    EXPECT_EQ(count, listed);
    EXPECT_EQ(ranking.layouts.front().hosts, each.request.chips.front() / 8 + (each.request.chips.front() < 8 ? 1 : 0));
  }
}

TEST(LayoutsTest, NoRankedLayoutExceedsTheMemory) {
  const LayoutRanking ranking = rank(find_shipped("deepseek_v3"), make_layout_request({64}, 4096, 1024), "h200");
  ASSERT_FALSE(ranking.layouts.empty());
  ASSERT_FALSE(ranking.unfit.empty());
  for (const LayoutTimes& x : ranking.layouts) EXPECT_LE(x.memory_bytes, *ranking.capacity_bytes);
  for (const LayoutTimes& x : ranking.unfit) EXPECT_GT(x.memory_bytes, *ranking.capacity_bytes);
  EXPECT_EQ(ranking.layouts.size() + ranking.unfit.size(), 48u);
}

// One more sequence for each data rank and stage would be too slow or too large.
TEST(LayoutsTest, BatchAtARateIsTheLargest) {
  const model::ModelConfig config = find_shipped("llama_3_70b");
  LayoutRequest request = make_layout_request({2, 8}, 8192, 1);
  request.rate = 40;
  const LayoutRanking ranking = rank(config, request, "h200");
  ASSERT_FALSE(ranking.layouts.empty());
  const Machine machine = *find_machine("h200");
  for (const LayoutTimes& x : ranking.layouts) {
    EXPECT_LE(40 * x.token_s, 1);
    EXPECT_TRUE(x.fits);
    const std::int64_t unit = x.layout.data * x.layout.pipeline;
    const std::int64_t next = x.batch >= unit ? x.batch + unit : x.batch + x.layout.data;
    const auto more = predict_by_hand(config, request, x.layout, next, machine);
    EXPECT_TRUE(more.decode.bound_s * 40 > 1 || !more.fits()) << x.batch;
  }
  for (const LayoutTimes& x : ranking.slow) EXPECT_GT(40 * x.token_s, 1);
  ModelRequest alone{.counts = request.counts, .tensor_parallel = 8, .rate = 40};
  EXPECT_GE(ranking.layouts.front().tokens_per_s_per_chip(),
            predict_model(config, alone, machine)->tokens_per_s_per_chip());
}

TEST(LayoutsTest, FrontHasEveryBatchThatNoOtherExceeds) {
  const model::ModelConfig config = find_shipped("llama_3_8b");
  LayoutRequest request = make_layout_request({1, 4}, 8192, 1);
  request.selection = LayoutSelection::pareto_front;
  const LayoutRanking ranking = rank(config, request, "h100");
  ASSERT_GT(ranking.layouts.size(), 3u);
  for (std::size_t i = 1; i < ranking.layouts.size(); ++i) {
    EXPECT_GT(ranking.layouts[i].token_s, ranking.layouts[i - 1].token_s);
    EXPECT_GT(ranking.layouts[i].tokens_per_s_per_chip(), ranking.layouts[i - 1].tokens_per_s_per_chip());
  }
  const Machine machine = *find_machine("h100");
  LayoutPredictor predictor(config, {.context = 8192}, machine);
  int count = 0;
  for (const std::int64_t chips : request.chips)
    for (const model::ChipLayout& layout : list_layouts(config, {.batch = 4, .context = 8}, chips))
      for (std::int64_t batch = layout.data; batch <= 1024; batch *= 2) {
        const auto step = predictor.predict(layout, batch, ModelPhase::decode);
        const double bytes = step->parameter_bytes + step->cache_bytes + step->activation_bytes;
        if (bytes > machine.memory.front().capacity->value) break;
        const double rate = static_cast<double>(batch) / step->bound_s / static_cast<double>(chips);
        const bool is_reached = std::any_of(ranking.layouts.begin(), ranking.layouts.end(), [&](const LayoutTimes& x) {
          return x.token_s <= step->bound_s && x.tokens_per_s_per_chip() >= rate * (1 - 2e-9);
        });
        EXPECT_TRUE(is_reached) << batch;
        ++count;
      }
  EXPECT_GT(count, 30);
}

// Points of (time, sequences on one chip): (1, 1) and (2, 3) are on the front, (2, 1) and (3, 4.5) are not; of two
// equal ones, that on fewer chips is. The last point gives more tokens per second than (2, 3) only by rounding.
TEST(LayoutsTest, FrontLeavesOutWhatAnotherExceeds) {
  const auto make = [](double seconds, std::int64_t batch, std::int64_t data) {
    return LayoutTimes{.machine = "h200", .layout = {.data = data}, .batch = batch, .token_s = seconds};
  };
  const auto front = find_pareto_front(
      {make(2, 6, 2), make(3, 9, 2), make(2, 1, 1), make(2, 3, 1), make(1, 1, 1), make(4 * (1 - 1e-12), 6, 1)});
  ASSERT_EQ(front.size(), 2u);
  EXPECT_EQ(front[0].token_s, 1);
  EXPECT_EQ(front[1].batch, 3);
  EXPECT_EQ(front[1].layout.chips(), 1);
}

TEST(LayoutsTest, BestOfEachCountIsTheFirstOfItsRanking) {
  const model::ModelConfig config = find_shipped("llama_3_70b");
  LayoutRequest request = make_layout_request({16, 1, 2, 3, 4, 8}, 8192, 16);
  request.is_chip_range = true;
  request.selection = LayoutSelection::best_of_each_count;
  const LayoutRanking each = rank(config, request, "h200");
  // One chip does not hold the model, and 3 is neither a power of two nor a divisor of the heads.
  ASSERT_EQ(each.layouts.size(), 4u);
  for (const LayoutTimes& x : each.layouts) {
    const LayoutRanking all = rank(config, make_layout_request({x.layout.chips()}, 8192, 16), "h200");
    EXPECT_EQ(ranks_of(x.layout), ranks_of(all.layouts.front().layout));
    EXPECT_EQ(x.token_s, all.layouts.front().token_s);
  }
  EXPECT_LT(each.layouts[0].network_share, each.layouts[3].network_share) << "the all-reduce's share grows";
}

TEST(LayoutsTest, BreakEvenBatchIsWhereRatesCross) {
  const model::ModelConfig config = find_shipped("llama_3_8b");
  const LayoutRequest request = make_layout_request({1}, 64, 1);
  const Machine l40s = *find_machine("l40s"), a100 = *find_machine("a100_80"), h200 = *find_machine("h200");
  const auto answer = [&](const Machine& machine, std::int64_t batch) {
    return predict_by_hand(config, request, {}, batch, machine);
  };
  const ModelOnMachine of_l40s = answer(l40s, 1), of_a100 = answer(a100, 1), of_h200 = answer(h200, 1);
  for (const bool is_reversed : {false, true}) {
    const AnsweredMachine first{of_l40s, l40s}, second{of_a100, a100};
    const auto found = find_break_even(config, {}, is_reversed ? second : first, is_reversed ? first : second);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->better, "l40s");
    EXPECT_EQ((*found)->other, "a100_80");
    const std::int64_t batch = (*found)->batch;
    EXPECT_GT(answer(l40s, batch).tokens_per_s_per_chip(), answer(a100, batch).tokens_per_s_per_chip());
    EXPECT_LE(answer(l40s, batch - 1).tokens_per_s_per_chip(), answer(a100, batch - 1).tokens_per_s_per_chip());
  }
  EXPECT_EQ(*find_break_even(config, {}, {of_a100, a100}, {of_h200, h200}), std::nullopt)
      << "the faster one stays faster";
}

// With draft tokens and as served, the batch before the break-even batch gives the other order.
TEST(LayoutsTest, BreakEvenBatchFollowsDraftTokensAndServing) {
  const model::ModelConfig config = find_shipped("llama_3_8b");
  ModelRequest request{.counts = {.context = 256}, .tensor_parallel = 1};
  const auto predict = [&](const ModelRequest& asked, DType format, std::int64_t batch) {
    ModelRequest one = asked;
    one.counts.weight_dtype = format;
    one.counts.batch = batch;
    return *predict_model(config, one, *find_machine("h100"));
  };
  std::vector<std::int64_t> batches;
  const auto expect_order = [&](const ModelRequest& asked) {
    const Machine h100 = *find_machine("h100");
    const ModelOnMachine int4 = predict(asked, DType::int4, 1), e4m3 = predict(asked, DType::e4m3, 1);
    const auto found = find_break_even(config, asked, {int4, h100}, {e4m3, h100});
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->better, "e4m3");
    const std::int64_t batch = (*found)->batch;
    batches.push_back(batch);
    EXPECT_GT(predict(asked, DType::e4m3, batch).tokens_per_s_per_chip(),
              predict(asked, DType::int4, batch).tokens_per_s_per_chip());
    EXPECT_LE(predict(asked, DType::e4m3, batch - 1).tokens_per_s_per_chip(),
              predict(asked, DType::int4, batch - 1).tokens_per_s_per_chip());
  };
  expect_order(request);
  ModelRequest served = request;
  served.serving = ServingRequest{.output_tokens = 256};
  expect_order(served);
  request.speculation = SpeculationRequest{.draft_tokens = 2, .acceptance = 0.7};
  expect_order(request);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_LT(batches[1], batches[0]) << "prefill multiplies faster in e4m3";
  EXPECT_LT(batches[2], batches[0]) << "a step multiplies three tokens of each sequence";
}

TEST(LayoutsTest, LayoutsBeyondTheLinksAreCounted) {
  Machine machine = *find_machine("h200");
  std::erase_if(machine.links, [](const Link& link) { return link.name == "scaleout"; });
  const auto found = rank_layouts(find_shipped("llama_3_8b"), make_layout_request({16}, 1024, 2), machine);
  ASSERT_TRUE(found) << found.error().to_string();
  // --dp 2 with --tp 8, --tp 4 --pp 2, --tp 2 --pp 4 or --pp 8; --dp 1 needs 16 linked chips.
  EXPECT_EQ(found->layouts.size(), 4u);
  EXPECT_EQ(found->without_link, 5);
  EXPECT_EQ(found->link_error,
            "expected stages of at most 8 chips in all, which nvlink joins, found 16; no link beyond is on record");
}

TEST(LayoutsTest, RefusesWhatCannotBeRanked) {
  const model::ModelConfig config = find_shipped("llama_3_70b");
  const Machine machine = *find_machine("h200");
  const auto error_of = [&](const LayoutRequest& request) {
    const auto ranking = rank_layouts(config, request, machine);
    return ranking ? "no error" : ranking.error().to_string();
  };
  EXPECT_EQ(error_of(make_layout_request({101}, 64, 8)),
            "llama_3_70b: expected --chips that divide the model and 8 sequences, found 101\n"
            "  hint: a power of two up to --batch times the heads\n");
  EXPECT_EQ(error_of(make_layout_request({0}, 64, 8)), "expected --chips from 1 to 65536, found 0\n");
  LayoutRequest many = make_layout_request({}, 64, 8);
  for (std::int64_t i = 1; i <= 65; ++i) many.chips.push_back(i);
  EXPECT_EQ(error_of(many), "expected at most 64 numbers of --chips, found 65\n  hint: --chips 1..64:*2\n");
  many.is_chip_range = true;
  EXPECT_EQ(error_of(many), "no error");
}

}  // namespace
}  // namespace ridge
