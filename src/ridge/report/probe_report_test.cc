#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ridge/report/report.h"

namespace ridge {
namespace {

using ::testing::HasSubstr;

TEST(ProbeReport, PrintsCostsOfFunctionsAfterTheRates) {
  const ProbeReport report{.machine = {.name = "cpu", .title = "a CPU", .peaks = {}, .memory = {}},
                           .lines = {{"f32", "FLOP/s", 1, compute_statistics({1.17e11, 1.18e11}), ""},
                                     {"cost_exp", "FLOP", 1, compute_statistics({33.6, 35}), ""}},
                           .path = {}};
  EXPECT_EQ(render_probe_text(report),
            "a CPU\n"
            "what      cores         median                      min .. max  runs\n"
            "f32           1  117.5 GFLOP/s  117.0 GFLOP/s .. 118.0 GFLOP/s     2\n"
            "cost_exp      1     34.30 FLOP           33.60 FLOP .. 35 FLOP     2\n");
  EXPECT_THAT(render_probe_json(report), HasSubstr("\"flops\": {"));
}

}  // namespace
}  // namespace ridge
