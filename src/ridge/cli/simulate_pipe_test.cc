// Runs `ridge simulate` metapipe, decode, kernel and PROGRAM.
#include <nlohmann/json.hpp>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

using Json = nlohmann::json;

class SimulatePipeTest : public CliTest {
 protected:
  Json json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "simulate");
    arguments.emplace_back("--json");
    const ProcessResult outcome = ridge(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
  static std::string example(const std::string& name) { return std::string(RIDGE_SOURCE_DIR) + "/examples/" + name; }
  // Returns the number of complete events in a Chrome trace.
  int events(const std::string& file) const {
    int count = 0;
    const Json trace = Json::parse(*read_file(path(file)));
    for (const Json& event : trace["traceEvents"]) count += event["ph"] == "X";
    return count;
  }
};

TEST_F(SimulatePipeTest, SimulatesAPipelineFromText) {
  const std::string pipe = "pipelined rows 10 { load a 100  compute b 300  store c 50 }";
  const ProcessResult outcome =
      ridge({"simulate", "metapipe", pipe, "--trace", path("t.json"), "--svg", path("t.svg")});
  EXPECT_EQ(outcome.out,
            "rows: 10 iterations, pipelined\n  cycles       3150\n  closed form  3150\n"
            "  sequential   4500, 1.43 times as long\n  bottleneck   b, busy 95.2 % of the time\n\n"
            "stage  runs  busy  starved  blocked  contended\na        10  1000        0     1600          0\n"
            "b        10  3000      100        0          0\nc        10   500     2650        0          0\n\n"
            "buffer  tiles  bytes each\na to b      2           0\nb to c      2           0\n0 bytes of buffers\n");
  EXPECT_EQ(events("t.json"), 49);  // 30 of work; the others are waits of a, b and c
  EXPECT_NE(read_file(path("t.svg"))->find("3 150 cycles"), std::string::npos);
  EXPECT_EQ(json({"metapipe", pipe, "--split", "b=3"})["cycles"], 1350);
  EXPECT_EQ(json({"metapipe", example("matmul.pipe")})["closed_form_cycles"], nullptr);
  expect_rejected(
      {"simulate", "metapipe", "none"}, 3,
      "ridge: cannot read 'none': No such file or directory\n  hint: a pipe is a file, - or the text itself: "
      "'pipelined rows 10 { load a 100  compute b 300 }'\n");
}

TEST_F(SimulatePipeTest, PrintsTheCostOfCalls) {
  const Json got = json({"decode", "--sync", "1e-6..1e-4:*10"});
  ASSERT_EQ(got["calling"].size(), 9U);
  EXPECT_EQ(got["calling"][0]["calls"], 322);
  EXPECT_EQ(got["calling"][1]["calls"], 34);
  EXPECT_EQ(got["calling"][2]["calls"], 3);
  EXPECT_NEAR(got["implied"][0]["call_s"].get<double>(), 28e-6, 0.5e-6);
  EXPECT_NEAR(json({"decode", "--on", "h100", "--chips", "1"})["implied"][2]["call_s"].get<double>(), 58e-6, 0.5e-6);
  EXPECT_EQ(got["model"], "llama_3_8b");
  EXPECT_EQ(json({"decode", "--model", "llama_3_70b"})["calling"][0]["calls"], 802) << "80 layers of 10 kernels";
  const Json layers = json({example("llama_decoder.ridge"), "--layers", "32", "--sync", "0,1e-5"});
  EXPECT_EQ(layers["calling"].size(), 6U);
  EXPECT_EQ(ridge({"simulate", "decode", "--svg", path("c.svg")}).code, 0);
  EXPECT_NE(read_file(path("c.svg"))->find("looped, 3 calls"), std::string::npos);
  const std::string hint = "'\n  hint: --sync 5e-6, --sync 0,1e-6,1e-5 or --sync 1e-7..1e-4:*10\n";
  for (const std::string sync : {"", "x", "1,,2", "-1", "0..1", "2..1", "1..2:*1", "1..2:*x"})
    expect_rejected({"simulate", "decode", "--sync", sync}, 2,
                    "ridge: expected seconds of at least 0 after --sync, found '" + sync + hint);
  expect_rejected({"simulate", "decode", "--chips", "0"}, 2, "ridge: expected 1 to 1048576 chips, found 0\n");
}

TEST_F(SimulatePipeTest, DrawsABlockOfAKernel) {
  const Json got = json({"kernel", "sm90_128x128x64_pingpong", "--tiles", "4", "--trace", path("k.json")});
  EXPECT_EQ(got["stages"], 16);
  // 64 stages of 32 KiB at the fitted L2 bandwidth, and 64 x 512 cycles of multiplications.
  const double load_cycles = got["load_cycles"].get<double>();
  EXPECT_GT(64 * 32768 / load_cycles, 50) << "bytes a cycle";
  EXPECT_LT(64 * 32768 / load_cycles, 100) << "bytes a cycle";
  EXPECT_NEAR(got["compute_cycles"].get<double>(), 64 * 512, 1);
  EXPECT_GT(got["overlap_cycles"].get<double>(), 0.8 * load_cycles);
  EXPECT_GT(events("k.json"), 64 * 3);
  expect_rejected(
      {"simulate", "kernel", "sm90_128x128x64_pingpog"}, 3,
      "ridge: no kernel is called 'sm90_128x128x64_pingpog'\n  hint: did you mean sm90_128x128x64_pingpong?\n");
  expect_rejected({"simulate", "kernel", "--tiles", "0"}, 2, "ridge: expected 1 to 64 tiles, found 0\n");
  expect_rejected({"simulate", "kernel", "--k", "0"}, 2, "ridge: expected K from 1 to 262144, found 0\n");
}

TEST_F(SimulatePipeTest, MapsEveryExample) {
  for (const char* name :
       {"attention", "cos_chain", "dot", "flash_attention", "gda", "geglu", "llama_decoder", "mlp", "softmax"}) {
    const ProcessResult outcome = ridge({"simulate", example(name + std::string(".ridge")), "--on", "sn40l"});
    EXPECT_EQ(outcome.code, 0) << name << outcome.err;
  }
  const Json flash = json({example("flash_attention.ridge"), "--inner", "T=256", "--svg", path("f.svg")});
  EXPECT_EQ(flash["passes"][0]["inner"]["tiles"], 8);
  EXPECT_NE(read_file(path("f.svg"))->find("Pipeline fill"), std::string::npos);
  expect_rejected(
      {"simulate", "A[I_X, J] * B[J, K] -> C[I_X, K]", "-d", "I=8", "-d", "J=8", "-d", "K=8", "-d", "X=2"}, 3,
      "ridge: cannot simulate a program that is sharded over the mesh axis X: it runs on one device\n  hint: `ridge "
      "explain` counts what each device does\n");
}

}  // namespace
}  // namespace ridge
