// Runs `ridge simulate`.
#include <nlohmann/json.hpp>
#include <sstream>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

using Json = nlohmann::json;

class SimulateTest : public CliTest {
 protected:
  Json json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"simulate", "systolic"});
    arguments.emplace_back("--json");
    const ProcessResult outcome = ridge(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return Json::parse(outcome.out);
  }
  void refuses(std::vector<std::string> arguments, int code, const std::string& message) const {
    arguments.insert(arguments.begin(), {"simulate", "systolic"});
    expect_rejected(arguments, code, message);
  }
};

TEST_F(SimulateTest, JsonHasTheDocumentedKeys) {
  const Json os = json({"--rows", "32", "--cols", "32", "--dataflow", "os", "256", "128", "256"});
  EXPECT_EQ(os["schema"], "ridge.simulate/1");
  EXPECT_EQ(os["cycles"], 10175);
  EXPECT_EQ(os["folds"], 32);
  EXPECT_DOUBLE_EQ(os["utilization"].get<double>(), 8388608.0 / (1024.0 * 10175));
  EXPECT_EQ(os["sram_words"], (Json{{"a", 262144}, {"b", 262144}, {"c", 34816}}));
  EXPECT_EQ(json({"--rows", "32", "--cols", "32", "--dataflow", "ws", "256", "128", "256"})["cycles"], 11199);
  EXPECT_EQ(json({"--rows", "32", "--cols", "32", "--dataflow", "is", "256", "128", "256"})["cycles"], 14207);
  EXPECT_EQ(json({"--rows", "32", "--cols", "32", "3025", "96", "363"})["cycles"], 112283);
}

TEST_F(SimulateTest, CountsCyclesOfAFourByFourArray) {
  const std::vector<std::string> array{"--rows", "4", "--cols", "4", "--dataflow", "ws"};
  const auto utilization = [&](std::vector<std::string> more) {
    more.insert(more.begin(), array.begin(), array.end());
    return json(more)["utilization"].get<double>();
  };
  EXPECT_DOUBLE_EQ(utilization({"--preload", "1", "4", "4"}), 1.0 / 7);
  EXPECT_DOUBLE_EQ(utilization({"--preload", "100", "4", "4"}), 100.0 / 106);
  EXPECT_DOUBLE_EQ(utilization({"1", "4", "4"}), 0.1);
}

TEST_F(SimulateTest, CountsStallsAtAGivenBandwidth) {
  const std::vector<std::string> os{"--rows", "32", "--cols", "32", "--dataflow", "os", "256", "128", "256"};
  std::vector<std::string> waiting = os;
  waiting.insert(waiting.end(), {"--bandwidth", "10,10,10", "--sram", "65536"});
  const Json got = json(waiting);
  EXPECT_EQ(got["cycles"], 10175);
  EXPECT_EQ(got["stalls"]["stall_cycles"], 42272);
  EXPECT_EQ(got["stalls"]["total_cycles"], 52447);
  waiting.emplace_back("--wait-once");
  EXPECT_LT(json(waiting)["stalls"]["stall_cycles"], 42272);
}

TEST_F(SimulateTest, ReadsATableOfProducts) {
  const std::string csv = file("p.csv", "M,K\n256,256\n1,4\n");
  const ProcessResult outcome = ridge(
      {"simulate", "systolic", "--rows", "32", "--cols", "32", "--dataflow", "os", "1", "128", "1", "--table", csv});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<int> cycles;
  for (std::string line; std::getline(lines, line);) cycles.push_back(Json::parse(line)["cycles"]);
  EXPECT_EQ(cycles, (std::vector<int>{10175, 4 * 66 - 1}));
  refuses({"--rows", "4", "--cols", "4", "--table", file("q.csv", "M,Q\n1,2\n"), "1", "2", "3"}, 3,
          "ridge: expected the columns M, N, K, R or C, found 'Q'\n  hint: M, N, K are the product's sizes, R and C "
          "the array's\n");
  refuses({"--rows", "4", "--cols", "4", "--table", file("m.csv", "M\n1\n")}, 3,
          "ridge: expected N as a column of the table or M N K as arguments, found neither\n  hint: ridge simulate "
          "systolic "
          "--rows 32 --cols 32 256 128 256 --table sizes.csv\n");
}

TEST_F(SimulateTest, ReadsScaleSimsOwnFiles) {
  const std::string layers = file("l.csv", "Layer, M, N, K,\nfirst, 256, 128, 256,\nsecond, 31, 33, 65,\n");
  const std::string config = file(
      "s.cfg",
      "[general]\nrun_name = a\n[architecture_presets]\nArrayHeight: 32\nArrayWidth: 32\nIfmapSramSzkB: 64\n"
      "FilterSramSzkB: 64\nOfmapSramSzkB: 64\nBandwidth: 10\nDataflow: is\n[run_presets]\nInterfaceBandwidth: USER\n");
  const ProcessResult outcome = ridge({"simulate", "systolic", "--topology", layers, "--config", config});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "layer     M    N    K  folds  cycles  utilization  stalls  total\n"
            "first   256  128  256     64   14207      57.66 %    5777  19984\n"
            "second   31   33   65      3     380      17.09 %       0    380\n"
            "\n2 layers: 14587 cycles, 56.60 % busy, plus 5777 stall cycles\n");
  refuses({"--topology", layers, "--config", config, "--rows", "4"}, 2,
          "ridge: expected --config without --rows, --cols and --dataflow\n  hint: the file holds all three\n");
  refuses({"--topology", layers, "--config", config, "1", "2", "3"}, 2,
          "ridge: expected either M N K or --topology, found both\n  hint: the file holds the layers' sizes\n");
  refuses({"--topology", layers, "--config", config, "--table", layers}, 2,
          "ridge: expected either --table or --topology, found both\n  hint: --table lists products, --topology "
          "SCALE-Sim's "
          "layers\n");
  refuses({"--topology", layers, "--config", config, "--svg", path("x.svg")}, 2,
          "ridge: expected one product to draw, found 2\n  hint: give M N K\n");
  refuses({"--topology", file("bad.csv", "Layer, M, N, K,\nfirst, 256, x, 256,\n"), "--rows", "4", "--cols", "4"}, 3,
          "FOLDER/bad.csv:2:13: expected a whole number from 1 to 2147483647 for N, found 'x'\n  first, 256, x, 256,\n "
          "        "
          "     ^\n");
}

TEST_F(SimulateTest, RejectsInvalidArguments) {
  const std::string help = "\n  hint: ridge simulate systolic --help\n";
  const std::string example = "\n  hint: ridge simulate systolic --rows 32 --cols 32 --dataflow os 256 128 256\n";
  refuses({}, 2, "ridge: expected --rows and --cols, or --config FILE.cfg" + example);
  refuses({"--rows", "4", "--cols", "4"}, 2, "ridge: expected M N K, --table or --topology, found none" + example);
  refuses({"--rows", "4", "--cols", "4", "1", "2"}, 2,
          "ridge: expected M N K, found 2 of them\n  hint: A [M, K] times B [K, N] gives C [M, N]\n");
  refuses({"--rows", "4", "--cols", "4", "1", "2", "3", "4"}, 2,
          "ridge: unexpected argument '4' after simulate systolic" + help);
  refuses({"--rows", "4", "--cols", "4", "one", "2", "3"}, 2, "ridge: expected a number for M, found 'one'" + help);
  refuses({"--rows", "few", "--cols", "4", "1", "2", "3"}, 2,
          "ridge: expected a number for --rows, found 'few'" + help);
  refuses({"--rows", "4", "--cols", "4", "1", "2", "3", "--jsn"}, 2,
          "ridge: unknown option '--jsn'\n  hint: did you mean --json?\n");
  refuses(
      {"--rows", "4", "--cols", "4", "--dataflow", "ss", "1", "2", "3"}, 2,
      "ridge: expected a dataflow os, ws or is, found 'ss'\n  hint: os keeps the result in place, ws the weights, is "
      "the inputs\n");
  refuses({"--rows", "0", "--cols", "4", "1", "2", "3"}, 3,
          "ridge: expected an array with rows of at least 1, found 0\n  hint: TPU v1 has 256 rows and 256 columns\n");
  refuses({"--rows", "4", "--cols", "4", "1", "-2", "3"}, 3,
          "ridge: expected a product with N of at least 1, found -2\n  hint: A [M, K] times B [K, N] gives C [M, N]\n");
  refuses({"--rows", "4", "--cols", "4", "1", "2", "3", "--sram", "64"}, 2,
          "ridge: expected --bandwidth together with --sram and --wait-once\n"
          "  hint: without it the array never waits\n");
  for (const std::string bandwidth : {"1,2", "0", "1,,3", "1e3", "3,4,5,6"})
    refuses({"--rows", "4", "--cols", "4", "1", "2", "3", "--bandwidth", bandwidth}, 2,
            "ridge: expected one or three whole numbers of at least 1 after --bandwidth, found '" + bandwidth +
                "'\n  hint: --bandwidth 16, or --bandwidth 16,16,32 for a, b and c\n");
  refuses({"--rows", "4", "--cols", "4", "1", "2", "3", "--svg", path("none/x.svg")}, 3,
          "ridge: cannot write 'FOLDER/none/x.svg': No such file or directory\n");
}

TEST_F(SimulateTest, MapsAProgramOntoAChip) {
  const std::string mlp = std::string(RIDGE_SOURCE_DIR) + "/examples/mlp.ridge";
  const ProcessResult outcome = ridge({"simulate", mlp, "--on", "sn40l", "--json", "--svg", path("m.svg")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json got = Json::parse(outcome.out);
  EXPECT_EQ(got["calling"][0]["calls"], 4);
  EXPECT_EQ(got["passes"][0]["stages"].size(), 6U);
  EXPECT_TRUE(read_file(path("m.svg"))->starts_with("<svg "));
  expect_rejected(
      {"simulate"}, 2,
      "ridge: expected a PROGRAM, systolic, weights, metapipe, decode or kernel; found none\n  hint: ridge simulate "
      "examples/mlp.ridge --on "
      "sn40l\n");
  expect_rejected(
      {"simulate", mlp, "--on", "h100"}, 2,
      "ridge: expected a fabric plasticine, sn10, sn40l, found 'h100'\n  hint: ridge explain --on takes any "
      "machine; ridge simulate systolic simulates an array\n");
}

TEST_F(SimulateTest, PrintsThePapersTable) {
  const ProcessResult outcome = ridge({"simulate", "weights"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("  MLP0   batch 200  14.8 %  12.7 %\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(Json::parse(ridge({"simulate", "weights", "--json"}).out)["rows"].size(), 6U);
  EXPECT_EQ(ridge({"simulate", "weights", "--svg", path("w.svg"), "--trace", path("w.json")}).out, outcome.out);
  EXPECT_NE(read_file(path("w.svg"))->find("TPU v1, MLP0"), std::string::npos);
  EXPECT_TRUE(Json::accept(*read_file(path("w.json"))));
}

}  // namespace
}  // namespace ridge
