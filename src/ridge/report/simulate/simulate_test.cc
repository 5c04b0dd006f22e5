#include "ridge/report/simulate/simulate.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

SystolicRun run(SystolicArray array, ProductSize product) { return *run_systolic({"", array, product}); }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(SystolicReport, SplitsTheCyclesOfAFold) {
  const std::vector<SystolicRun> one{run({4, 4, Dataflow::weight_stationary}, {16, 4, 4})};
  EXPECT_EQ(render_text(one),
            "M 16 N 4 K 4 on 4×4 elements, weight-stationary\n"
            "  cycles       25 = 1 fold · 26 − 1\n"
            "  utilization  64.00 % (tiles fill 100.00 % of the elements)\n"
            "  sram words   a 64 b 16 c 64\n"
            "  fold         T + 2R + C − 2 = 26, T = M = 16\n"
            "               load 4, fill 6, compute 10, drain 6\n");
}

TEST(SystolicReport, DrawsABoxForEveryElementInEveryCycle) {
  const std::string svg = render_svg(run({4, 4, Dataflow::weight_stationary, true}, {1, 4, 4}));
  EXPECT_EQ(count(svg, "class=\"busy\""), 16U + 1);  // every weight is used once; one in the legend
  EXPECT_EQ(count(svg, "class=\"idle\""), 7U * 16 - 16 + 1);
  EXPECT_NE(svg.find("cycle 3: 4 of 16"), std::string::npos);
  EXPECT_NE(svg.find("cycle 6: 1 of 16"), std::string::npos);
}

TEST(SystolicReport, DrawsOnlyFoldsOfALargeArray) {
  const std::string svg = render_svg(run({32, 32, Dataflow::output_stationary}, {256, 128, 256}));
  EXPECT_EQ(count(svg, "class=\"busy\""), 0U);
  EXPECT_NE(svg.find("The first 8 folds"), std::string::npos);
  EXPECT_EQ(count(svg, "class=\"compute\""), 8U + 1);  // one in the legend
}

TEST(SystolicReport, BusyElementsEqualTheMultiplyAdds) {
  for (const Dataflow flow : {Dataflow::output_stationary, Dataflow::weight_stationary, Dataflow::input_stationary}) {
    const SystolicRun odd = run({3, 2, flow}, {3, 3, 2});
    ASSERT_TRUE(odd.is_drawable()) << dataflow_name(flow);
    std::int64_t busy = 0;
    const ElementRun elements = *compute_frames(odd);
    for (const ArrayFrame& frame : elements.frames)
      for (const std::uint8_t b : frame.busy) busy += b;
    EXPECT_EQ(busy, 3 * 3 * 2) << dataflow_name(flow);
  }
}

}  // namespace
}  // namespace ridge
