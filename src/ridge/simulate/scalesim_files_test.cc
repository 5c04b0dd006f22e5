#include "ridge/simulate/scalesim_files.h"

#include <gtest/gtest.h>

#include <random>

namespace ridge {
namespace {

std::vector<TopologyLayer> layers(std::string_view text) { return parse_topology(text, "t.csv").value(); }
std::string topology_error(std::string_view text) { return parse_topology(text, "t.csv").error().to_string(); }

TEST(Topology, ReadsProductsAndConvolutionsByTheirHeader) {
  const std::vector<TopologyLayer> products = layers("Layer,M,N,K,\nL0,196,192,384,\n\nL1,196,1176,64,\n");
  ASSERT_EQ(products.size(), 2U);
  EXPECT_EQ(products[0], (TopologyLayer{"L0", {196, 192, 384}, {}, 1}));
  EXPECT_EQ(products[1].product, (ProductSize{196, 1176, 64}));

  const std::vector<TopologyLayer> convolutions = layers(
      "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
      "Conv1     ,224         ,224        ,11           ,11          ,3       ,96        ,4      ,\n");
  ASSERT_EQ(convolutions.size(), 1U);
  EXPECT_EQ(convolutions[0].name, "Conv1");
  EXPECT_EQ(convolutions[0].product, (ProductSize{3025, 96, 363}));
  EXPECT_EQ(convolutions[0].convolution, (Convolution{224, 224, 11, 11, 3, 96, 4, 4}));
}

TEST(Topology, ReadsTheFormsOfTheShippedFiles) {
  const std::string header =
      "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, ";
  // A byte order mark, CRLF, no comma at the end, title rows, rows of commas.
  EXPECT_EQ(layers("\xEF\xBB\xBF" + header + "Strides\r\n,,,,,,,\r\nTransformer,\r\nA,128,16,1,16,1,24,1\r\n").size(),
            1U);
  // Tabs.
  EXPECT_EQ(layers("Layer name\t IFMAP Height\t IFMAP Width\nConv1_1\t572\t572\t3\t3\t1\t64\t1\t\n")[0].product,
            (ProductSize{570 * 570, 64, 9}));
  // A batch, notes after the last column, dense sparsity.
  EXPECT_EQ(layers(header + "Strides, Batch Size,\nE,512,512,1,1,3,4096,1,2,\n")[0].product.m, 2 * 512 * 512);
  EXPECT_EQ(layers(header + "Strides,,,Eh,Ew,e2\nE,8,8,1,1,3,4,1,,,8,8,64\n")[0].product, (ProductSize{64, 4, 3}));
  EXPECT_EQ(layers("Layer, M, N, K, Sparsity,\nG, 3, 5, 16, 4:4,\n")[0].product, (ProductSize{3, 5, 16}));
  // Two strides: an image of 9 x 9 has 4 x 7 windows of 3 x 3.
  const std::string strides = header + "Stride Height, Stride Width,";
  EXPECT_EQ(layers(strides + "\nx,9,9,3,3,3,64,2,1,\n")[0].product, (ProductSize{28, 64, 27}));
  EXPECT_EQ(layers(strides + "Batch,\nx,9,9,3,3,3,64,1,2,2,\n")[0].product, (ProductSize{56, 64, 27}));
  // A depthwise layer runs one channel at a time.
  const TopologyLayer depthwise = layers(header + "Strides,\nDP2,112,112,3,3,32,1,1,\n")[0];
  EXPECT_EQ(depthwise.copies, 32);
  EXPECT_EQ(depthwise.product, (ProductSize{110 * 110, 1, 9}));
}

TEST(Topology, RefusesColumnsThatItWouldDrop) {
  EXPECT_EQ(topology_error("Layer,M,N,K,heads,\nG,8,8,8,4,\n"),
            "t.csv:1:13: expected the columns M, N, K, then Batch or Sparsity, found 'heads'\n"
            "  Layer,M,N,K,heads,\n"
            "              ^^^^^\n"
            "  hint: name it Batch if each layer has that many rows or images, or remove the column\n");
  EXPECT_EQ(topology_error("Layer,M,N,K,\nG,8,8,8,4,\n"),
            "t.csv:2:9: expected at most 4 cells, as the header has, found 5\n"
            "  G,8,8,8,4,\n"
            "          ^\n"
            "  hint: name the column, for example Batch\n");
}

TEST(Topology, ErrorsHavePositionAndHint) {
  EXPECT_EQ(topology_error("Layer,M,N,K,\nL0,196,x,384,\n"),
            "t.csv:2:8: expected a whole number from 1 to 2147483647 for N, found 'x'\n"
            "  L0,196,x,384,\n"
            "         ^\n");
  EXPECT_EQ(topology_error("Layer,M,N,K,\nL0,196,192\n"),
            "t.csv:2:11: expected 3 numbers after the name, found 2: K is missing\n"
            "  L0,196,192\n"
            "            ^\n");
  EXPECT_EQ(topology_error("Layer,M,N,K,\nL0, 1, 2, 3, 2:4,\n"),
            "t.csv:2:14: expected dense weights (1:1), found 2:4\n"
            "  L0, 1, 2, 3, 2:4,\n"
            "               ^^^\n"
            "  hint: sparse weights are not simulated\n");
  EXPECT_EQ(topology_error("Layer name, IFMAP Height\nC,3,3,5,5,1,1,1,\n"),
            "t.csv:2:1: expected a filter no larger than the image of 3×3, found 5×5\n"
            "  C,3,3,5,5,1,1,1,\n"
            "  ^^^^^^^^^^^^^^^^\n");
  EXPECT_EQ(topology_error("Layer,M,N,K,\n"),
            "t.csv:1:1: expected layers after the header, found none\n"
            "  Layer,M,N,K,\n"
            "  ^^^^^^^^^^^^\n");
  EXPECT_EQ(topology_error(""), "t.csv: expected a header and layers, found nothing\n");
}

constexpr std::string_view scale_cfg =
    "[general]\nrun_name = scale_example_run_32x32_ws\n\n[architecture_presets]\nArrayHeight:    32\nArrayWidth:     "
    "32\n"
    "IfmapSramSzkB:   64\nFilterSramSzkB:  64\nOfmapSramSzkB:   64\nIfmapOffset:    0\nBandwidth : 10\nDataflow : ws\n"
    "MemoryBanks:   1\n[layout]\nIfmapCustomLayout: False\nIfmapSRAMBankBandwidth: 12\nFilterSRAMBankBandwidth: 14\n"
    "[sparsity]\nSparsitySupport : false\n[run_presets]\nInterfaceBandwidth: CALC\nUseRamulatorTrace: False\n";

std::string with(std::string_view from, std::string_view to) {
  std::string text(scale_cfg);
  text.replace(text.find(from), from.size(), to);
  return text;
}
std::string config_error(const std::string& text) { return parse_scalesim_config(text, "s.cfg").error().to_string(); }

TEST(ScaleSimConfigFile, ReadsTheShippedKeys) {
  const ScaleSimConfig config = parse_scalesim_config(scale_cfg, "s.cfg").value();
  EXPECT_EQ(config.run_name, "scale_example_run_32x32_ws");
  EXPECT_EQ(config.array, (SystolicArray{32, 32, Dataflow::weight_stationary}));
  EXPECT_EQ(config.scratchpads, (Scratchpads{{65536, 12}, {65536, 14}, {65536, 10}}));
  EXPECT_FALSE(config.user_bandwidth);
  EXPECT_TRUE(config.not_simulated.empty());
  EXPECT_EQ(parse_scalesim_config(with("IfmapCustomLayout: False", "ifmapcustomlayout = True"), "s.cfg")->not_simulated,
            std::vector<std::string>{"IfmapCustomLayout"});
  // eyeriss.cfg has no [layout]; tpuv5e_downscale.cfg ends without [sparsity] and UseRamulatorTrace.
  const ScaleSimConfig bare =
      parse_scalesim_config(
          "[architecture_presets]\nArrayHeight: 12\nArrayWidth: 14\nIfmapSramSzkB: 36\nFilterSramSzkB: 36\n"
          "OfmapSramSzkB: 36\nDataflow : os\nBandwidth : 10, 10, 10\n[run_presets]\nInterfaceBandwidth: USER",
          "e.cfg")
          .value();
  EXPECT_TRUE(bare.user_bandwidth);
  EXPECT_EQ(bare.scratchpads.a, (Scratchpad{36864, 10}));
}

TEST(ScaleSimConfigFile, ErrorsHavePositionAndHint) {
  EXPECT_EQ(config_error(with("ArrayHeight:    32", "ArrayHeight:    many")),
            "s.cfg:5:17: expected a whole number from 1 to 2147483647 for ArrayHeight, found 'many'\n"
            "  ArrayHeight:    many\n"
            "                  ^^^^\n");
  EXPECT_EQ(config_error(with("ArrayHeight:    32", "ArrayHeight:    0")),
            "s.cfg:5:17: expected a whole number from 1 to 2147483647 for ArrayHeight, found '0'\n"
            "  ArrayHeight:    0\n"
            "                  ^\n");
  EXPECT_EQ(config_error(with("Dataflow : ws", "Dataflow : rs")),
            "s.cfg:12:12: expected Dataflow os, ws or is, found 'rs'\n"
            "  Dataflow : rs\n"
            "             ^^\n");
  EXPECT_EQ(config_error(with("Dataflow : ws\n", "")),
            "s.cfg: expected Dataflow in [architecture_presets], found none\n");
  EXPECT_EQ(config_error(with("MemoryBanks:   1", "Bandwidth = 11")),
            "s.cfg:13:1: 'Bandwidth' appears twice in [architecture_presets]\n"
            "  Bandwidth = 11\n"
            "  ^^^^^^^^^\n");
  EXPECT_EQ(config_error("ArrayHeight: 3\n"),
            "s.cfg:1:1: expected a [section] first, found 'ArrayHeight: 3'\n"
            "  ArrayHeight: 3\n"
            "  ^^^^^^^^^^^^^^\n");
  EXPECT_EQ(config_error(with("ArrayHeight:    32", "ArrayHeight:    70000")),
            "s.cfg: expected an array with at most 65536 rows, found 70000\n  hint: a product larger than the array "
            "takes more folds\n");
}

// A small fuzz test: every prefix, and thousands of texts with changed bytes, must give a value or an error.
TEST(ScaleSimFiles, NoTextCrashesTheParsers) {
  std::mt19937 random(3);
  const std::string topology =
      "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
      "DP1,224,224,11,11,3,96,4,1:1,\nC,2147483647,2147483647,1,1,2147483647,1,1,\n";
  for (const std::string& seed : {topology, std::string(scale_cfg)})
    for (int i = 0; i < 20000; ++i) {
      std::string text = seed.substr(0, random() % (seed.size() + 1));
      for (unsigned edits = random() % 4; edits > 0 && !text.empty(); --edits)
        text[random() % text.size()] =
            static_cast<char>(random() % 3 == 0 ? random() % 256 : ",:=[]\n\t019-"[random() % 11]);
      const auto layers_or = parse_topology(text, "fuzz");
      const auto config_or = parse_scalesim_config(text, "fuzz");
      if (!layers_or) {
        EXPECT_FALSE(layers_or.error().to_string().empty());
      }
      if (!config_or) {
        EXPECT_FALSE(config_or.error().to_string().empty());
      }
      if (layers_or)
        for (const TopologyLayer& layer : *layers_or)
          (void)simulate_systolic({16, 16, Dataflow::weight_stationary}, layer.product).ok();
    }
}

}  // namespace
}  // namespace ridge
