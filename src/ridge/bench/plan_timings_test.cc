#include "ridge/bench/plan_timings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ridge/ops/product/config.h"

namespace ridge {
namespace {

using tile::SplitMode;

TimedDevice device() {
  return {.device = "NVIDIA H200",
          .day = "2026-11-25",
          .ridge_version = "0.1.0 (abc)",
          .driver = 13000,
          .multiprocessors = 132,
          .clock_hz = 1.98e9,
          .memory_bytes_per_s = 4.9e12,
          .l2_bytes = 52428800,
          .max_active_clusters = {132, 66}};
}

TimedProduct product() {
  return {{.op = "tn", .dtype = DType::bf16, .out = DType::bf16, .size = {64, 4096, 512}},
          {{.config = 3, .split = {}, .copies = {}, .seconds = 12.34e-6},
           {.config = 3, .split = {4, SplitMode::split_k}, .copies = {.a = true}, .seconds = 1e-6},
           {.config = 5, .split = {16, SplitMode::cooperative_split_k}, .copies = {true, true}, .seconds = 2e-6},
           {.config = 7, .split = {8, SplitMode::cluster_split_k}, .copies = {.b = true}, .seconds = 3e-6},
           {.config = 9, .split = {1, SplitMode::stream_k}, .copies = {}, .seconds = 0.1},
           {.config = -1, .split = {}, .copies = {}, .seconds = 4e-6}}};
}

TEST(PlanTimings, WrittenFileReadsBackEqual) {
  const std::string line = format_timings_line(product());
  EXPECT_EQ(line, "tn,bf16,64,4096,512,3=12.34 3k4+a=1 5w16+ab=2 7c8+b=3 9s=1e+05 gemv=4\n");
  const auto back = parse_timings(format_timings_header(device()) + line, "t.csv");
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(format_timings_header(back->device), format_timings_header(device()));
  ASSERT_EQ(back->products.size(), 1u);
  EXPECT_EQ(format_timings_line(back->products[0]), line);
  EXPECT_TRUE(back->unknown_configs.empty());
}

TEST(PlanTimings, IdentifyConfigsByName) {
  const std::string above = "# device: NVIDIA H200\n# config 4: " + format_config(7) +
                            "\n# config 5: sm90_1x1x1_old stages 2 staging 1\nop,dtype,m,n,k,plans\n";
  const auto read = parse_timings(above + "linear,bf16,1,8,8,4=2 5=3 gemv=4\n", "t.csv");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_THAT(read->unknown_configs, testing::ElementsAre("sm90_1x1x1_old stages 2 staging 1"));
  ASSERT_EQ(read->products[0].plans.size(), 2u);
  EXPECT_EQ(read->products[0].plans[0].config, 7);
  EXPECT_EQ(read->products[0].plans[1].config, -1);
}

TEST(PlanTimings, EachConfigHasAUniqueName) {
  std::vector<std::string> names;
  for (int config = 0; config < static_cast<int>(ops::sm90_kernel_configs.size()); ++config)
    names.push_back(format_config(config));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(PlanTimings, ErrorsNameProblemAndLine) {
  const std::string head = format_timings_header(device());
  for (const auto& [line, message] :
       {std::pair{"linear,bf16,1,8,8,4", "expected a plan and its microseconds as 17k4=12.34, found '4'"},
        {"linear,bf16,1,8,8,4k=2", "expected a plan and its microseconds as 17k4=12.34, found '4k=2'"},
        {"linear,bf16,1,8,8,4=0", "expected a plan and its microseconds as 17k4=12.34, found '4=0'"},
        {"linear,bf16,1,8,8,1000=2", "no line above names config 1000"},
        {"linear,bf16,1,0,8,4=2", "expected n to be a whole number of at least 1, found '0'"},
        {"nothing", "expected op,dtype,m,n,k,plans, found 'nothing'"}}) {
    const auto read = parse_timings(head + line + "\n", "t.csv");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, message);
    EXPECT_EQ(read.error().source, "t.csv");
  }
  EXPECT_EQ(parse_timings("# driver: many\n", "t.csv").error().message, "expected a number in '# driver: many'");
  EXPECT_EQ(parse_timings("", "t.csv").error().message, "'t.csv' holds no timings");
}

}  // namespace
}  // namespace ridge
