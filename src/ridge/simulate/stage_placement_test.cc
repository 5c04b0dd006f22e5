#include "ridge/simulate/stage_placement.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

// Twelve units of 1 GFLOP/s each: the example of the header.
const Fabric twelve{.name = "twelve",
                    .pcus = 12,
                    .pmus = 8,
                    .pmu_bytes = 1024,
                    .pcu_flops_per_second = 1e9,
                    .dtype = "f32",
                    .clock_hz = 0,
                    .memory_bytes_per_second = 1e9,
                    .scratch_bytes_per_second = 0,
                    .sources = "made up"};

std::vector<StageWork> three() {
  return {{.name = "load", .flops = 1e9}, {.name = "multiply", .flops = 8e9}, {.name = "store", .flops = 3e9}};
}

TEST(Placement, UnitsGoToTheSlowestStage) {
  const Placement p = place_stages(twelve, three(), {.iterations = 10}).value();
  EXPECT_EQ(p.stages[0].pcus, 1);
  EXPECT_EQ(p.stages[1].pcus, 8);
  EXPECT_EQ(p.stages[2].pcus, 3);
  EXPECT_DOUBLE_EQ(p.interval_seconds, 1);
  EXPECT_DOUBLE_EQ(p.even_interval_seconds, 2);
  EXPECT_DOUBLE_EQ(p.speedup_over_even(), 2);
  EXPECT_TRUE(p.fits);
  EXPECT_EQ(closed_form_cycles(p.pipe), 12'000'000'000);  // 9 iterations of 1 s, then three stages of 1 s
  EXPECT_EQ(simulate_metapipe(p.pipe, p.resources)->cycles, 12'000'000'000);
  EXPECT_EQ(p.to_text(),
            "twelve: 12 PCUs, 0 PMUs, buffers 0 bytes; fits\n"
            "  load                 1 PCUs  1 s (even share 0.25 s)\n"
            "  multiply             8 PCUs  1 s (even share 2 s)\n"
            "  store                3 PCUs  1 s (even share 0.75 s)\n"
            "  one iteration every 1 s, limited by load; 2.00x an even share\n");
}

TEST(Placement, StageWithAUnitLimitIsSplit) {
  std::vector<StageWork> works = three();
  works[1].max_pcus = 2;
  const Placement capped = place_stages(twelve, works).value();
  EXPECT_EQ(capped.stages[1].pcus, 2);
  EXPECT_EQ(capped.bottleneck, "multiply");
  EXPECT_DOUBLE_EQ(capped.interval_seconds, 4);
  works[1].max_pieces = 3;
  const Placement split = place_stages(twelve, works).value();
  EXPECT_EQ(split.stages[1].pieces, 3);
  EXPECT_EQ(split.pipe.stages.size(), 5U);
  EXPECT_DOUBLE_EQ(split.interval_seconds, 8.0 / 6);
  std::int64_t pcus = 0;
  for (const PipeStage& stage : split.pipe.stages) pcus += stage.pcus;
  EXPECT_EQ(pcus, split.pcus);
}

TEST(Placement, StopsAtTheMemoryLimit) {
  std::vector<StageWork> works = three();
  works[0].memory_bytes = 2e9;  // 2 s for each iteration
  const Placement p = place_stages(twelve, works, {.iterations = 5}).value();
  EXPECT_EQ(p.bottleneck, "memory");
  EXPECT_DOUBLE_EQ(p.interval_seconds, 2);
  EXPECT_LT(p.pcus, 12);
  // 2 s of loading for each iteration, then the last tile in the other two stages.
  EXPECT_EQ(simulate_metapipe(p.pipe, p.resources)->cycles, 10'000'000'000 + 2'000'000'000 + 1'500'000'000);
}

TEST(Placement, BuffersUseFullMemoryUnits) {
  std::vector<StageWork> works = three();
  works[0].tile_bytes = 1000;
  works[1].tile_bytes = 600;
  const Placement p = place_stages(twelve, works, {.skip_buffers = {{0, 2, 300, 0}}}).value();
  EXPECT_EQ(p.buffer_bytes, 2 * 1000 + 2 * 600 + 3 * 300);
  EXPECT_EQ(p.pmus, 2 + 2 + 1);
  works[0].tile_bytes = 4000;
  const Placement too_much = place_stages(twelve, works).value();
  EXPECT_FALSE(too_much.fits);
  EXPECT_EQ(too_much.why_not, "its buffers of 9200 bytes need 10 PMUs, the chip has 8");
}

// Product of the course notes: 256 rows of A are resident, 64 columns of B stream. Its intensity tends to 256 FLOP/B,
// below SN40L's ridge of 399, so B cannot stream from HBM at full rate; 512 rows can.
TEST(Placement, TheNotesProductNeedsMoreRowsThanTheRidge) {
  const Fabric sn40l = find_fabric("sn40l").value();
  EXPECT_NEAR(static_cast<double>(sn40l.pcus) * sn40l.pcu_flops_per_second / sn40l.memory_bytes_per_second, 399, 0.5);
  const auto bottleneck = [&](double rows) {
    const double k = 8192, columns = 64;
    const std::vector<StageWork> works{
        {.name = "load B", .phase = Phase::load, .memory_bytes = 2 * k * columns, .tile_bytes = 2 * 8192 * 64},
        {.name = "multiply",
         .flops = 2 * rows * columns * k,
         .tile_bytes = static_cast<std::int64_t>(2 * rows * columns)},
        {.name = "store C", .phase = Phase::store, .memory_bytes = 2 * rows * columns}};
    return place_stages(sn40l, works).value();
  };
  EXPECT_EQ(bottleneck(256).bottleneck, "memory");
  EXPECT_LT(bottleneck(256).pcus, 700);
  EXPECT_EQ(bottleneck(512).bottleneck, "multiply");
  EXPECT_EQ(bottleneck(512).pcus, 1040);
}

TEST(Placement, FabricsAreNamedAndSourced) {
  ASSERT_EQ(list_fabrics().size(), 3U);
  for (const Fabric& f : list_fabrics()) EXPECT_FALSE(f.sources.empty());
  EXPECT_DOUBLE_EQ(list_fabrics()[0].pcu_flops_per_second * 64, 12.288e12);
  EXPECT_DOUBLE_EQ(list_fabrics()[1].pcu_flops_per_second * 640, 320e12);
  EXPECT_NEAR(list_fabrics()[2].pcu_flops_per_second * 1040, 638e12, 1e9);
  EXPECT_EQ(find_fabric("sn30").error().message, "expected a fabric plasticine, sn10, sn40l, found 'sn30'");
}

TEST(Placement, RejectsInvalidStages) {
  const auto message = [](const Fabric& fabric, const std::vector<StageWork>& works, PlacementOptions options = {}) {
    return place_stages(fabric, works, options).error().message;
  };
  EXPECT_EQ(message(twelve, {}), "expected at least one stage to place, found none");
  EXPECT_EQ(message(twelve, {{.name = "s", .flops = -1}}), "stage 's': expected FLOPs from 0 to 1e18, found -1");
  EXPECT_EQ(message(twelve, {{.name = "s", .max_pieces = 0}}),
            "stage 's': expected pieces at most between 1 and 1048576, found 0");
  EXPECT_EQ(message(twelve, three(), {.iterations = 0}),
            "loop 'twelve': expected a loop with iterations between 1 and 1099511627776, found 0");
  EXPECT_EQ(message(twelve, three(), {.compute_efficiency = 1.5}),
            "expected an efficiency above 0 and at most 1, found 1.5");
  Fabric unknown = twelve;
  unknown.memory_bytes_per_second = 0;
  EXPECT_EQ(message(unknown, {{.name = "s", .memory_bytes = 1}}), "fabric 'twelve' has no published memory bandwidth");
  Fabric none = twelve;
  none.pcus = 0;
  EXPECT_EQ(message(none, three()),
            "fabric 'twelve': expected 1 to 1048576 PCUs and PMUs of at least 0 bytes, found 0 and 8 of 1024");
  Fabric two = twelve;
  two.pcus = 2;
  EXPECT_EQ(place_stages(two, three())->why_not, "its stages need 3 PCUs, the chip has 2");
}

}  // namespace
}  // namespace ridge
