#include "ridge/simulate/metapipe.h"

#include <gtest/gtest.h>

#include <random>

#include "ridge/simulate/metapipe_simulator.h"

namespace ridge {
namespace {

PipeStage fixed_stage(std::string name, std::int64_t cycles) {
  return {.name = std::move(name), .depth = cycles, .body = {}};
}

Metapipe three_stages(PipeSchedule schedule) {
  return {.name = "example",
          .schedule = schedule,
          .iterations = 10,
          .stages = {fixed_stage("load", 100), fixed_stage("compute", 300), fixed_stage("store", 50)}};
}

std::int64_t simulated_cycles(const Metapipe& pipe, const PipeResources& resources = {}) {
  return simulate_metapipe(pipe, resources).value().cycles;
}

TEST(Metapipe, TheReferenceExampleTakes4500Then3150Then1350) {
  for (const auto& [schedule, cycles] : {std::pair{PipeSchedule::sequential, 4500},
                                         {PipeSchedule::pipelined, 3150},
                                         {PipeSchedule::streaming, 3150},
                                         {PipeSchedule::fork_join, 3000}}) {
    EXPECT_EQ(closed_form_cycles(three_stages(schedule)), cycles) << schedule_name(schedule);
    EXPECT_EQ(simulated_cycles(three_stages(schedule)), cycles) << schedule_name(schedule);
  }
  const Metapipe split = split_stage(three_stages(PipeSchedule::pipelined), 1, 3).value();
  EXPECT_EQ(split.stages.size(), 5U);
  EXPECT_EQ(split.stages[2].name, "compute.2");
  EXPECT_EQ(closed_form_cycles(split), 1350);
  EXPECT_EQ(simulated_cycles(split), 1350);
}

TEST(Metapipe, ABufferOverOneStageNeedsThreeTiles) {
  Metapipe pipe{.name = "gda",
                .iterations = 100,
                .stages = {fixed_stage("load", 10), fixed_stage("difference", 10), fixed_stage("outer product", 10)},
                .buffers = {{0, 1}, {1, 2}, {0, 2}}};
  EXPECT_EQ(effective_buffers(pipe)[2].tile_count(), 3);
  EXPECT_EQ(closed_form_cycles(pipe), 1020);
  EXPECT_EQ(simulated_cycles(pipe), 1020);
  pipe.buffers[2].tiles = 2;  // one too few: every second iteration waits
  EXPECT_FALSE(closed_form_cycles(pipe).has_value());
  EXPECT_GT(simulated_cycles(pipe), 1400);
  pipe.buffers[2].tiles = 4;
  EXPECT_EQ(simulated_cycles(pipe), 1020);
}

TEST(Metapipe, OneTilePerBufferSerializesAdjacentStages) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.buffers = {{0, 1, 0, 1}, {1, 2, 0, 1}};
  EXPECT_EQ(simulated_cycles(pipe), 100 + 10 * 300 + 9 * 100 + 50);  // load waits until compute has released its tile
}

TEST(Metapipe, InnerLoopsPipelineTheirTripsAndParallelFactorsDivideThem) {
  PipeStage map{.name = "map", .trips = 64, .interval = 2, .depth = 9, .body = {}};
  EXPECT_EQ(leaf_latency(map), 63 * 2 + 9);
  map.parallel = 10;
  EXPECT_EQ(leaf_latency(map), 6 * 2 + 9);
  const Metapipe rows{.name = "rows", .iterations = 10, .parallel = 4, .stages = {map}};
  EXPECT_EQ(rows.round_count(), 3);
  EXPECT_EQ(closed_form_cycles(rows), 3 * 21);
  EXPECT_EQ(simulated_cycles(rows), 3 * 21);
}

TEST(Metapipe, NestedLoopsDrainInEveryIteration) {
  // The product of the course notes: an outer loop loads a tile of A, an inner one streams tiles of B through load,
  // multiply, store.
  const Metapipe inner{.name = "columns",
                       .iterations = 8,
                       .stages = {fixed_stage("load b", 20), fixed_stage("multiply", 30), fixed_stage("store c", 10)}};
  const Metapipe outer{
      .name = "rows", .iterations = 4, .stages = {fixed_stage("load a", 100), {.name = "columns", .body = {inner}}}};
  const std::int64_t once = 30 * 7 + 60;
  EXPECT_EQ(closed_form_cycles(inner), once);
  EXPECT_EQ(closed_form_cycles(outer), 100 + 4 * once);
  const MetapipeRun run = simulate_metapipe(outer).value();
  EXPECT_EQ(run.cycles, 100 + 4 * once);
  ASSERT_EQ(run.stages.size(), 5U);
  EXPECT_EQ(run.stages[1].name, "columns");
  EXPECT_EQ(run.stages[3], (StageActivity{"columns/multiply", 32, 32 * 30, 4 * 20, 0, 0}));
  EXPECT_EQ(run.bottleneck, "columns/multiply");
}

TEST(Metapipe, RecurrenceLimitsTheInterval) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.recurrences = {{1, 0, 1}};  // load needs the result of compute: 400 cycles/iteration
  EXPECT_EQ(closed_form_cycles(pipe), 9 * 400 + 450);
  EXPECT_EQ(simulated_cycles(pipe), 9 * 400 + 450);
  pipe.recurrences = {{2, 0, 2}};  // 450 cycles for two iterations: hidden by the 300
  EXPECT_EQ(closed_form_cycles(pipe), 3150);
  EXPECT_EQ(simulated_cycles(pipe), 3150);
}

TEST(Metapipe, FifosBlockAndDataDependentStagesAreSimulated) {
  Metapipe pipe{.name = "bursts",
                .schedule = PipeSchedule::streaming,
                .iterations = 4,
                .stages = {fixed_stage("in", 10), fixed_stage("out", 10)}};
  pipe.stages[1].latencies = {10, 100, 10, 10};
  EXPECT_FALSE(closed_form_cycles(pipe).has_value());
  pipe.buffers = {{0, 1, 0, 1}};
  const MetapipeRun run = simulate_metapipe(pipe).value();
  EXPECT_EQ(run.cycles, 10 + 10 + 100 + 10 + 10);
  EXPECT_EQ(run.stages[0].blocked, 80);  // item 3 waits from 40 until out starts item 2 at 120
  pipe.buffers[0].tiles = 4;
  EXPECT_EQ(simulate_metapipe(pipe).value().stages[0].blocked, 0);
}

TEST(Metapipe, MemoryIsSharedInOrderOfArrival) {
  PipeStage load{.name = "load", .depth = 10, .memory_bytes = 1000, .body = {}}, store = load;
  store.name = "store";
  const Metapipe pipe{.name = "copy", .iterations = 100, .stages = {load, store}};
  EXPECT_EQ(closed_form_cycles(pipe), 1010);
  EXPECT_EQ(simulated_cycles(pipe, {.memory_bytes_per_cycle = 1000}), 1010);
  // 2000 bytes/iteration at 50 bytes/cycle: memory is busy for 40 cycles in each iteration, without gaps.
  const MetapipeRun run = simulate_metapipe(pipe, {.memory_bytes_per_cycle = 50}).value();
  EXPECT_EQ(run.cycles, 4000);
  EXPECT_GT(run.stages[0].contended + run.stages[1].contended, 0);
}

TEST(Metapipe, StagesAlternateOnTooFewUnits) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  EXPECT_EQ(simulated_cycles(pipe, {.pcus = 3}), 3150);
  EXPECT_EQ(simulated_cycles(pipe, {.pcus = 1}), 4500);
  pipe.stages[1].parallel = 2;
  EXPECT_EQ(simulate_metapipe(pipe, {.pcus = 1}).error().to_string(),
            "stage 'compute' of loop 'example' needs 2 copies of 1 PCUs, the chip has 1\n"
            "  hint: lower the parallel factors\n");
}

TEST(Metapipe, LastRoundMovesOnlyTheRemainingIterations) {
  const PipeStage load{.name = "load", .depth = 1, .memory_bytes = 100, .body = {}};
  const Metapipe pipe{.name = "rows", .iterations = 10, .parallel = 4, .stages = {load}};
  EXPECT_EQ(simulated_cycles(pipe, {.memory_bytes_per_cycle = 1}), 1000);
}

TEST(Metapipe, TimelineShowsThePipeFillingUp) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.iterations = 2;
  pipe.stages[0].phase = Phase::load;
  pipe.stages[2].phase = Phase::store;
  const Timeline timeline = simulate_metapipe(pipe).value().timeline;
  EXPECT_EQ(timeline.lanes, (std::vector<std::string>{"load", "compute", "store"}));
  const std::vector<Event> expected{
      {0, Phase::load, 0, 100, 0},      {1, Phase::stall, 0, 100, 0},     {0, Phase::load, 100, 200, 1},
      {1, Phase::compute, 100, 400, 0}, {1, Phase::compute, 400, 700, 1}, {2, Phase::stall, 0, 400, 0},
      {2, Phase::store, 400, 450, 0},   {2, Phase::stall, 450, 700, 1},   {2, Phase::store, 700, 750, 1}};
  std::vector<Event> found = timeline.events;
  const auto by_lane = [](const Event& a, const Event& b) {
    return std::tuple(a.lane, a.begin, a.end) < std::tuple(b.lane, b.begin, b.end);
  };
  std::vector<Event> sorted = expected;
  std::sort(found.begin(), found.end(), by_lane);
  std::sort(sorted.begin(), sorted.end(), by_lane);
  EXPECT_EQ(found, sorted);
}

TEST(Metapipe, TextShowsWaits) {
  EXPECT_EQ(simulate_metapipe(three_stages(PipeSchedule::pipelined))->to_text(),
            "cycles 3150, bottleneck compute (95.2 % busy)\n"
            "  stage         runs         busy      starved      blocked    contended\n"
            "  load            10         1000            0         1600            0\n"
            "  compute         10         3000          100            0            0\n"
            "  store           10          500         2650            0            0\n");
}

Metapipe random_pipe(std::mt19937& random, int level) {
  const auto random_up_to = [&](int n) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(n)); };
  Metapipe pipe{.name = "p",
                .schedule = static_cast<PipeSchedule>(random() % 4),
                .iterations = random_up_to(12),
                .parallel = random_up_to(3),
                .overhead = random_up_to(3) - 1,
                .stages = {}};
  const std::int64_t stages = random_up_to(5);
  for (std::int64_t s = 0; s < stages; ++s) {
    PipeStage stage{.name = "s",
                    .trips = random_up_to(9),
                    .interval = random_up_to(3),
                    .depth = random_up_to(20),
                    .parallel = random_up_to(3),
                    .body = {}};
    if (random() % (pipe.schedule == PipeSchedule::streaming ? 3 : 12) == 0)
      stage.accept_cycles = random_up_to(static_cast<int>(leaf_latency(stage)));
    if (random() % 12 == 0) stage.latencies.assign(random_up_to(3), random_up_to(20));
    for (const std::int64_t latency : stage.latencies) stage.accept_cycles = std::min(stage.accept_cycles, latency);
    if (level < 2 && random() % 5 == 0) stage.body = {random_pipe(random, level + 1)};
    pipe.stages.push_back(stage);
  }
  if (random() % 2 == 0) {  // any acyclic graph; stages without inputs start immediately
    for (std::int64_t b = 1; b < stages; ++b)
      for (std::int64_t a = 0; a < b; ++a)
        if (random() % 3 == 0) pipe.buffers.push_back({a, b, 0, random() % 2 == 0 ? 0 : b - a + random_up_to(3)});
  }
  if (random() % 5 == 0) {
    const std::int64_t to = random_up_to(static_cast<int>(stages)) - 1;
    pipe.recurrences = {{to + random_up_to(static_cast<int>(stages - to)) - 1, to, random_up_to(3)}};
    if (random() % 4 == 0) pipe.recurrences.push_back({to, 0, 1});
  }
  return pipe;
}

TEST(Metapipe, SimulationEqualsClosedFormForRandomPipes) {
  std::mt19937 random(17);
  int exact = 0;
  for (int i = 0; i < 20000; ++i) {
    const Metapipe pipe = random_pipe(random, 0);
    const std::int64_t cycles = simulated_cycles(pipe);
    const std::optional<std::int64_t> closed = closed_form_cycles(pipe);
    if (!closed) continue;
    ++exact;
    ASSERT_EQ(cycles, *closed) << i << " " << schedule_name(pipe.schedule) << " stages " << pipe.stages.size()
                               << " turns " << pipe.round_count();
  }
  EXPECT_GT(exact, 10000);
}

TEST(Metapipe, BuffersCountTheirTilesAndCopies) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.buffers = {{0, 1, 1000}, {1, 2, 10, 5}};
  EXPECT_EQ(buffer_bytes(pipe), 2050);
  const Metapipe outer{.name = "o", .parallel = 3, .stages = {{.name = "l", .body = {pipe}}}};
  EXPECT_EQ(buffer_bytes(outer), 3 * 2050);
}

TEST(Metapipe, SplittingDividesEdgesAndBytes) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.stages[1].memory_bytes = 100;
  pipe.buffers = {{0, 1, 64}, {1, 2, 32}, {0, 2, 16, 3}};
  const Metapipe split = split_stage(pipe, 1, 3).value();
  EXPECT_EQ(split.buffers,
            (std::vector<PipeBuffer>{{0, 1, 64}, {3, 4, 32}, {0, 4, 16, 5}, {1, 2, 64, 2}, {2, 3, 64, 2}}));
  EXPECT_EQ(split.stages[1].memory_bytes + split.stages[2].memory_bytes + split.stages[3].memory_bytes, 100);
  EXPECT_EQ(split_stage(pipe, 1, 301).error().message,
            "loop 'example': expected stage 'compute' in 1 to 300 pieces, found 301");
  pipe.stages[1].latencies = {1, 2};
  EXPECT_EQ(split_stage(pipe, 1, 2).error().message,
            "loop 'example': stage 'compute' has data-dependent latencies: it cannot be split");
}

TEST(Metapipe, SplittingKeepsRecurrences) {
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  for (const Recurrence& r : {Recurrence{1, 1, 1}, {2, 1, 1}, {1, 0, 2}, {2, 2, 1}, {0, 0, 3}, {2, 0, 2}}) {
    pipe.recurrences = {r};
    const Recurrence split = split_stage(pipe, 1, 3).value().recurrences[0];
    EXPECT_EQ(split, (Recurrence{r.from + (r.from >= 1 ? 2 : 0), r.to + (r.to > 1 ? 2 : 0), r.distance}))
        << r.from << " to " << r.to;
  }
  pipe.recurrences = {{1, 1, 1}};  // compute depends on itself: three pieces still take 300 cycles/iteration
  EXPECT_EQ(simulated_cycles(split_stage(pipe, 1, 3).value()), 3150);
}

// An iteration takes at least the sum of the latencies along a recurrence, whatever the number of pieces. The test
// computes the sum over the full pipe, independent of pieces.
TEST(Metapipe, SplitsAreNoFasterThanARecurrence) {
  std::mt19937 random(23);
  const auto random_up_to = [&](int n) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 3000; ++i) {
    Metapipe pipe{.name = "p", .iterations = random_up_to(20), .stages = {}};
    const std::int64_t stages = random_up_to(5);
    for (std::int64_t s = 0; s < stages; ++s) pipe.stages.push_back(fixed_stage("s", 3 + random_up_to(20)));
    const std::int64_t to = random_up_to(static_cast<int>(stages)) - 1;
    const Recurrence r{to + random_up_to(static_cast<int>(stages - to)) - 1, to, random_up_to(3)};
    pipe.recurrences = {r};
    std::int64_t all = 0, around = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      all += pipe.stages[s].depth;
      if (s >= r.to && s <= r.from) around += pipe.stages[s].depth;
    }
    const std::int64_t stage = random_up_to(static_cast<int>(stages)) - 1, pieces = random_up_to(4);
    const std::int64_t whole = simulated_cycles(pipe),
                       split = simulated_cycles(split_stage(pipe, stage, pieces).value());
    const std::string about = std::to_string(i) + ": stage " + std::to_string(stage) + " of " + std::to_string(stages) +
                              " in " + std::to_string(pieces) + ", recurrence " + std::to_string(r.from) + " to " +
                              std::to_string(r.to);
    ASSERT_GE(split, all + (pipe.iterations - 1) / r.distance * around) << about;
    ASSERT_LE(split, whole) << about;
  }
}

// For every limit: the value at the limit is accepted, the next one is rejected.
TEST(Metapipe, AcceptsLimitsAndRejectsTheNextValue) {
  const auto said = [](const Metapipe& pipe) {
    const Status status = check_metapipe(pipe);
    return status ? "taken" : status.error().message.substr(std::string("loop 'example': ").size());
  };
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const auto with_stage = [&](auto set) {
    Metapipe pipe = three_stages(PipeSchedule::pipelined);
    pipe.iterations = 1;
    set(pipe.stages[1]);
    return said(pipe);
  };
  EXPECT_EQ(with_stage([](PipeStage& s) { s.depth = most; }), "taken");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.depth = most + 1; }),
            "expected stage 'compute' with a depth between 0 and 1099511627776, found 1099511627777");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.depth = 0; }), "taken");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.depth = -1; }),
            "expected stage 'compute' with a depth between 0 and 1099511627776, found -1");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.pmus = 0; }), "taken");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.pmus = -1; }),
            "expected stage 'compute' with PMUs between 0 and 1099511627776, found -1");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.network_bytes = -1; }),
            "expected stage 'compute' with network bytes between 0 and 1099511627776, found -1");
  EXPECT_EQ(with_stage([](PipeStage& s) { s.latencies = {5, 0}; }), "taken");
  EXPECT_EQ(with_stage([](PipeStage& s) {
              s.latencies = {5, -1};
            }),
            "expected stage 'compute' with latencies between 0 and 1099511627776, found -1");
  EXPECT_EQ(with_stage([](PipeStage& s) {
              s.latencies = {50, 20, 90};
              s.accept_cycles = 20;
            }),
            "taken");
  EXPECT_EQ(with_stage([](PipeStage& s) {
              s.latencies = {50, 20, 90};
              s.accept_cycles = 21;
            }),
            "expected stage 'compute' with accept cycles of at most its latency 20, found 21");
  EXPECT_EQ(with_stage([](PipeStage& s) {
              s.body = {three_stages(PipeSchedule::pipelined)};
              s.accept_cycles = 1000;
            }),
            "taken")
      << "a loop's own numbers are unused";
  EXPECT_EQ(with_stage([](PipeStage& s) {
              s.body = {three_stages(PipeSchedule::pipelined), three_stages(PipeSchedule::pipelined)};
            }),
            "expected stage 'compute' with one loop inside, found 2");
  const auto with_buffer = [&](PipeBuffer b) {
    Metapipe pipe = three_stages(PipeSchedule::pipelined);
    pipe.buffers = {b};
    return said(pipe);
  };
  EXPECT_EQ(with_buffer({0, 2, most, 1 << 20}), "taken");
  EXPECT_EQ(with_buffer({0, 2, most + 1, 2}),
            "expected a buffer with bytes between 0 and 1099511627776, found 1099511627777");
  EXPECT_EQ(with_buffer({0, 2, 1, (1 << 20) + 1}), "expected a buffer of 0 to 1048576 tiles, found 1048577");
  EXPECT_EQ(with_buffer({-1, 2}), "expected a buffer from a stage to a later one of 3, found -1 to 2");
  const auto with_recurrence = [&](Recurrence r) {
    Metapipe pipe = three_stages(PipeSchedule::pipelined);
    pipe.recurrences = {r};
    return said(pipe).substr(0, 21);
  };
  EXPECT_EQ(with_recurrence({2, 0, 1}), "taken");
  for (const Recurrence& r : {Recurrence{3, 0, 1}, {2, -1, 1}, {2, 0, 0}, {0, 2, 1}})
    EXPECT_EQ(with_recurrence(r), "expected a recurrence") << r.from << " to " << r.to << " at " << r.distance;
  const auto nested = [&](int levels) {
    Metapipe pipe{.name = "example", .stages = {fixed_stage("s", 1)}};
    for (int level = 1; level < levels; ++level) pipe = {.name = "example", .stages = {{.name = "in", .body = {pipe}}}};
    return said(pipe);
  };
  EXPECT_EQ(nested(16), "taken");
  EXPECT_EQ(nested(17), "expected loops nested at most 16 deep");
  Metapipe empty = three_stages(PipeSchedule::pipelined);
  empty.stages[1].body = {{.name = "example", .stages = {}}};
  EXPECT_EQ(said(empty), "expected at least one stage, found none");
}

// The maximum is 2^61 cycles, of the longest latency of each stage, with all its trips and inner loops.
TEST(Metapipe, RejectsCyclesAbove64Bits) {
  const auto fits = [](std::int64_t iterations, PipeStage stage) {
    return check_metapipe({.name = "p", .iterations = iterations, .stages = {std::move(stage)}}).ok();
  };
  constexpr std::int64_t most = std::int64_t{1} << 40;
  EXPECT_TRUE(fits(1 << 20, fixed_stage("s", most)));
  EXPECT_FALSE(fits(1 << 21, fixed_stage("s", most)));
  EXPECT_TRUE(fits(1 << 20, {.name = "s", .latencies = {1, most}, .body = {}}));
  EXPECT_FALSE(fits(1 << 21, {.name = "s", .latencies = {1, most}, .body = {}}));
  EXPECT_TRUE(fits(1, {.name = "s", .trips = (1 << 20) + 1, .interval = most, .depth = 0, .body = {}}));
  EXPECT_FALSE(fits(1, {.name = "s", .trips = (1 << 21) + 1, .interval = most, .depth = 0, .body = {}}));
  EXPECT_TRUE(fits(1, {.name = "s", .trips = (1 << 21) + 1, .interval = most, .depth = 0, .parallel = 2, .body = {}}));
  EXPECT_FALSE(fits(most, {.name = "s", .trips = most, .interval = most, .depth = most, .body = {}}));
  EXPECT_FALSE(
      fits(2, {.name = "s", .body = {{.name = "q", .iterations = 1 << 20, .stages = {fixed_stage("t", most)}}}}));
}

TEST(Metapipe, SplitsTripsOrDepthAndAllBytesEvenly) {
  Metapipe pipe{
      .name = "p",
      .stages = {
          {.name = "s", .trips = 8, .interval = 3, .depth = 10, .memory_bytes = 7, .network_bytes = 11, .body = {}}}};
  const Metapipe trips = split_stage(pipe, 0, 3).value();
  std::vector<std::int64_t> shares;
  for (const PipeStage& s : trips.stages)
    shares.insert(shares.end(), {s.trips, s.depth, s.memory_bytes, s.network_bytes});
  EXPECT_EQ(shares, (std::vector<std::int64_t>{3, 10, 3, 4, 3, 10, 2, 4, 2, 10, 2, 3}));
  pipe.stages[0].trips = 2;
  EXPECT_EQ(split_stage(pipe, 0, 2)->stages[1].trips, 1);
  EXPECT_EQ(split_stage(pipe, 0, 3).error().message, "loop 'p': expected stage 's' in 1 to 2 pieces, found 3");
  pipe.stages[0].trips = 1;
  EXPECT_EQ(split_stage(pipe, 0, 10)->stages[9].depth, 1);
  EXPECT_EQ(split_stage(pipe, 0, 11).error().message, "loop 'p': expected stage 's' in 1 to 10 pieces, found 11");
  EXPECT_EQ(split_stage(pipe, 0, 1)->stages[0].name, "s");
  EXPECT_EQ(split_stage(pipe, 0, 0).error().message, "loop 'p': expected stage 's' in 1 to 10 pieces, found 0");
  EXPECT_EQ(split_stage(pipe, 1, 1).error().message, "loop 'p': expected a stage of 1, found 1");
  EXPECT_EQ(split_stage(pipe, -1, 1).error().message, "loop 'p': expected a stage of 1, found -1");
  pipe.stages.push_back({.name = "loop", .body = {three_stages(PipeSchedule::pipelined)}});
  EXPECT_EQ(split_stage(pipe, 1, 1).error().message, "loop 'p': stage 'loop' is a loop: it cannot be split");
  pipe.iterations = 0;
  EXPECT_FALSE(split_stage(pipe, 0, 2).ok());
}

TEST(Metapipe, WithScheduleAppliesToNestedLoops) {
  const Metapipe outer{.name = "o", .stages = {{.name = "l", .body = {three_stages(PipeSchedule::pipelined)}}}};
  const Metapipe in_turn = with_schedule(outer, PipeSchedule::sequential);
  EXPECT_EQ(in_turn.schedule, PipeSchedule::sequential);
  EXPECT_EQ(in_turn.stages[0].body[0].schedule, PipeSchedule::sequential);
  EXPECT_EQ(closed_form_cycles(in_turn), 4500);
  EXPECT_EQ(leaf_latency({.name = "s", .latencies = {4, 5, 6}, .body = {}}, 7), 5);
}

TEST(Metapipe, RejectsInvalidPipes) {
  const auto message = [](const Metapipe& pipe) { return simulate_metapipe(pipe).error().message; };
  Metapipe pipe = three_stages(PipeSchedule::pipelined);
  pipe.iterations = 0;
  EXPECT_EQ(message(pipe), "loop 'example': expected a loop with iterations between 1 and 1099511627776, found 0");
  pipe = three_stages(PipeSchedule::pipelined);
  pipe.stages[2].trips = -4;
  EXPECT_EQ(message(pipe), "loop 'example': expected stage 'store' with trips between 1 and 1099511627776, found -4");
  pipe = three_stages(PipeSchedule::pipelined);
  pipe.stages[2].accept_cycles = 51;
  EXPECT_EQ(message(pipe),
            "loop 'example': expected stage 'store' with accept cycles of at most its latency 50, found 51");
  pipe = three_stages(PipeSchedule::pipelined);
  pipe.buffers = {{1, 1}};
  EXPECT_EQ(message(pipe), "loop 'example': expected a buffer from a stage to a later one of 3, found 1 to 1");
  pipe.buffers = {{0, 1, 0, -1}};
  EXPECT_EQ(message(pipe), "loop 'example': expected a buffer of 0 to 1048576 tiles, found -1");
  pipe.buffers = {{0, 3}};
  EXPECT_EQ(message(pipe), "loop 'example': expected a buffer from a stage to a later one of 3, found 0 to 3");
  pipe.buffers = {};
  pipe.recurrences = {{0, 1, 1}};
  EXPECT_EQ(
      message(pipe),
      "loop 'example': expected a recurrence from a stage back to itself or an earlier one of 3, at a distance of at "
      "least 1, found 0 to 1 at 1");
  EXPECT_EQ(message({.name = "empty", .stages = {}}), "loop 'empty': expected at least one stage, found none");
  pipe = three_stages(PipeSchedule::pipelined);
  pipe.iterations = std::int64_t{1} << 40;
  EXPECT_EQ(message(pipe), "expected at most 16777216 runs of stages, found more");
  pipe.stages[0].depth = std::int64_t{1} << 40;
  EXPECT_EQ(message(pipe), "loop 'example': its cycles could exceed 64 bits");
  EXPECT_EQ(simulate_metapipe(three_stages(PipeSchedule::pipelined), {.memory_bytes_per_cycle = -1}).error().message,
            "expected memory bytes a cycle of at least 0, found -1");
  Metapipe deep{.name = "leaf", .stages = {fixed_stage("s", 1)}};
  for (int level = 0; level < 20; ++level) deep = {.name = "loop", .stages = {{.name = "in", .body = {deep}}}};
  EXPECT_EQ(message(deep), "loop 'loop': expected loops nested at most 16 deep");
}

}  // namespace
}  // namespace ridge
