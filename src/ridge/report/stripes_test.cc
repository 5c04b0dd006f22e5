#include "ridge/report/stripes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ridge {
namespace {

using ::testing::HasSubstr, ::testing::Not;

Stripe at(std::int64_t size, std::int64_t tiles, std::int64_t waves) {
  return {size, "256x128", tiles, waves, 1e9, {0.9e-3, 1e-3, 1.1e-3}};
}

TEST(Stripes, DescribesAndDrawsTileAndWaveChanges) {
  Stripes s{"bf16[M, K] * bf16[K, N] -> bf16[M, N]", "a100_80", "NVIDIA A100", "N", 108};
  s.rows = {at(1664, 98, 1), at(1792, 98, 1), at(1793, 120, 2)};
  describe_edges(s);
  EXPECT_EQ(s.rows[1].edge, "");
  EXPECT_EQ(s.rows[2].edge, "120 tiles instead of 98, 2 waves (was 1)");
  const std::string picture = render_svg(s);
  EXPECT_THAT(picture, HasSubstr(">1793: 120 tiles, 2 waves</text>"));
  EXPECT_THAT(picture, HasSubstr(">1664</text>"));
  EXPECT_THAT(picture, Not(HasSubstr("1792: ")));
  EXPECT_THAT(picture, Not(HasSubstr("measured")));
  EXPECT_THAT(picture, HasSubstr(">1792</text>")) << "ticks are multiples of a power of two";
  s.rows[0].measured_s = 2e-3;
  EXPECT_THAT(render_svg(s), HasSubstr(">measured</text>"));
}

// Only some of many edges are drawn: those with another number of waves if they are few enough, otherwise none.
TEST(Stripes, DrawsNoUnlabelledLines) {
  const auto lines = [](const std::string& svg) {
    std::size_t out = 0;
    for (std::size_t at = svg.find("\"leader\" x1"); at != svg.npos; at = svg.find("\"leader\" x1", at + 1)) ++out;
    return out;
  };
  Stripes s{"bf16[M, K] * bf16[K, N] -> bf16[M, N]", "a100_80", "NVIDIA A100", "N", 108};
  for (int i = 0; i < 40; ++i) s.rows.push_back(at(1001 + i, i, i < 20 ? 1 : 2));
  describe_edges(s);
  EXPECT_EQ(lines(render_svg(s)), 1u);
  EXPECT_THAT(render_svg(s), HasSubstr("38 changes of kernel, tiles or waves are not drawn; the table lists them"));
  EXPECT_THAT(render_svg(s), Not(HasSubstr(">1001</text>")));
  for (int i = 0; i < 40; ++i) s.rows[i].waves = i;
  describe_edges(s);
  EXPECT_EQ(lines(render_svg(s)), 0u);
}

TEST(Stripes, TextHasIntervalsAndTheRemark) {
  Stripes s{"bf16[M, K] * bf16[K, N] -> bf16[M, N]", "a100_40", "NVIDIA A100", "N", 108};
  s.rows = {at(1664, 98, 1)};
  s.remark = "the library is not calibrated on a100_40";
  EXPECT_EQ(render_text(s),
            "bf16[M, K] * bf16[K, N] -> bf16[M, N] on NVIDIA A100, 108 cores\n"
            "   N  kernel   tiles  waves  predicted           low .. high           rate  measured  rate  change\n"
            "1664  256x128     98      1   1.000 ms  900.0 us .. 1.100 ms  1.000 TFLOP/s         -     -\n"
            "the library is not calibrated on a100_40\n");
  EXPECT_THAT(render_json(s), HasSubstr("\"remark\": \"the library is not calibrated on a100_40\""));
}

}  // namespace
}  // namespace ridge
