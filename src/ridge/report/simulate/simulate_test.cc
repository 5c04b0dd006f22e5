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

TEST(WeightLoadingReport, ComparesTheModelWithThePaper) {
  const std::vector<TpuV1Row> rows = tpu_v1_applications();
  EXPECT_EQ(
      render_text(rows),
      "TPU v1, share of cycles in which rows stream: model and table 3 of the paper\n"
      "  MLP0   batch 200  14.8 %  12.7 %\n"
      "  MLP1   batch 168  12.5 %  10.6 %\n"
      "  LSTM0  batch  64   9.5 %   8.2 %  fits only at half rate (8 by 16 bits), which is inferred\n"
      "  LSTM1  batch  96  14.2 %  10.5 %  fits only at half rate (8 by 16 bits), which is inferred\n"
      "  CNN0   batch   8       –  78.2 %  2888 rows use every weight tile, so weights never stall and the model "
      "predicts 100 %; the 21.8 % outside the matrix unit are published as a total only\n"
      "  CNN1   batch  32       –  46.2 %  1750 rows a tile on average hide 28.1 % of weight stalls in layers that "
      "have fewer; their shapes are not published\n");
  EXPECT_EQ(render_text(std::span(rows).first(3), {.line_width = 60}),
            "TPU v1, share of cycles in which rows stream: model and table 3 of the paper\n"
            "  MLP0   batch 200  14.8 %  12.7 %\n"
            "  MLP1   batch 168  12.5 %  10.6 %\n"
            "  LSTM0  batch  64   9.5 %   8.2 %  fits only at half rat...\n");
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
  EXPECT_NE(svg.find("The first 8 folds of 32<"), std::string::npos);
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
