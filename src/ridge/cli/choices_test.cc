// Options besides program and machine: memory of the tensors, dtypes, pods.
#include <nlohmann/json.hpp>
#include <set>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

using Json = nlohmann::json;

constexpr const char* matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(CliTest, UsesTheRequestedMemory) {
  const auto explained = [&](const std::string& memory) {
    const ProcessResult outcome =
        ridge({"explain", matmul, "--on", "tpu_v5e", "--memory", memory, "B=8", "D=8192", "F=8192", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const double bytes = 2.0 * (8 * 8192 + 8192 * 8192 + 8 * 8192);
  const auto seconds = [&](const std::string& memory) {
    return explained(memory)["ops"][0]["time_lower_s"].get<double>();
  };
  EXPECT_DOUBLE_EQ(seconds("8.1e11"), bytes / 8.1e11);
  EXPECT_DOUBLE_EQ(seconds("vmem"), bytes / 17.82e12);
  EXPECT_DOUBLE_EQ(seconds("pcie"), bytes / 15e9);  // For a link: the memory at its other end
  EXPECT_DOUBLE_EQ(seconds("hbm"), bytes / 819e9);
  EXPECT_TRUE(holds(explained("vmem").dump(), "--memory vmem --weights int8")) << "the steps keep the choice";
  const ProcessResult bare =
      ridge({"explain", "--flops", "1", "--bytes", "15e9", "--on", "tpu_v5e", "--memory", "pcie"});
  EXPECT_TRUE(holds(bare.out, "memory-bound: at least 1 s (perfect overlap)")) << bare.out << bare.err;
}

TEST_F(CliTest, RejectsAnUnknownMemory) {
  expect_rejected(
      {"explain", matmul, "--on", "tpu_v5e", "--memory", "l3"}, 2,
      "ridge: expected a rate in B/s, or a memory or link of tpu_v5e with a rate after --memory, found 'l3'\n"
      "  hint: it has hbm, vmem, ici, dcn, pcie\n");
  expect_rejected({"explain", matmul, "--on", "h200", "--plan", "--memory", "l2", "B=8", "D=8", "F=8"}, 2,
                  "ridge: expected --memory without --plan: plans use the device's own memory\n");
  expect_rejected(
      {"explain", "--send", "17e6", "--on", "tpu_v5e", "--memory", "vmem"}, 2,
      "ridge: expected --send without --memory\n  hint: --send can be combined with --on --link --hops --json\n");
  expect_rejected({"explain", matmul, "--on", "tpu_v5e", "--hops", "3"}, 2,
                  "ridge: expected --hops together with --send\n");
  expect_rejected(
      {"explain", "--flops", "1", "--bytes", "1", "--on", "h100", "--split", "D=2"}, 2,
      "ridge: expected --flops without --split\n  hint: --flops can be combined with --flops --bytes --on --dtype "
      "--memory "
      "--sustained --plan --steps --check --against --all --json --csv --md --svg --html --roofs\n");
  expect_rejected({"explain", matmul, "--on", "h100", "--between", "Z=Z", "--split", "D=2"}, 2,
                  "ridge: expected --between without --split\n  hint: --between can be combined with -d --dtype --on "
                  "--sustained --link "
                  "--memory --json\n");
}

TEST_F(CliTest, RejectsAnUnusedDtype) {
  const std::string message =
      "ridge: expected tensors without a dtype with --dtype, found that every tensor declares its own\n"
      "  hint: --dtype sets all dtypes of A[B, D] * W[D, F] -> C[B, F]; x: bf16[B, D] declares its own\n";
  const std::vector<std::string> words{matmul, "B=8", "D=8", "F=8", "--dtype", "int8"};
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"explain", "--on", "h100"},
                                               {"explain", "--on", "h100", "--steps"},
                                               {"explain", "--on", "h100,h200"},
                                               {"explain", "--on", "h100", "--check", "B > 3"},
                                               {"explain", "--on", "h100", "--tile", "8x8"},
                                               {"sweep", "--on", "h100"},
                                               {"run"},
                                               {"simulate", "--on", "sn40l"}}) {
    std::vector<std::string> all = verb;
    all.insert(all.end(), words.begin(), words.end());
    expect_rejected(all, 2, message);
  }
  const ProcessResult taken = ridge({"explain", "A[B, D] * int8[D, F] -> C[B, F]", "--dtype", "f32", "--on", "h100"});
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_EQ(ridge({"explain", "--flops", "1", "--bytes", "1", "--dtype", "int8", "--on", "h100"}).code, 0);
}

TEST_F(CliTest, SuggestsNextStepsForMasksWithTheirOwnPairs) {
  const ProcessResult outcome = ridge(
      {"explain",
       "q: bf16[S, H, E]   k: bf16[T, H, E]   w: bf16[H, E, F]\ns[S, H, T] = q * k\n"
       "p[S, H, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\no[S, H, E] = p * k\ny: bf16[S, F] = o * w",
       "--on", "h100", "S=8", "T=64", "H=64", "E=128", "F=8192"});
  EXPECT_TRUE(holds(outcome.out, "--weights int8")) << outcome.out << outcome.err;
  EXPECT_TRUE(holds(outcome.out, "8 chips, ")) << outcome.out;
}

TEST_F(CliTest, RanksBareNumbersAndShowsSeveralMachines) {
  const ProcessResult ranked = ridge({"explain", "--flops", "1e12", "--bytes", "1", "--on", "h100,tpu_v6e"});
  EXPECT_EQ(ranked.code, 0) << ranked.err;
  EXPECT_TRUE(holds(ranked.out, "1.011 ms") && holds(ranked.out, "1.089 ms")) << ranked.out;
  const ProcessResult pods = ridge({"machines", "tpu_v5e,tpu_v5p"});
  EXPECT_EQ(pods.code, 0) << pods.err;
  EXPECT_TRUE(holds(pods.out, "pod of 256 chips")) << pods.out;
  EXPECT_TRUE(holds(pods.out, "4.096 TB of hbm; 209.7 TB/s bandwidth; 256 cores; 32 hosts")) << pods.out;
  EXPECT_TRUE(holds(pods.out, "pod of 8 960 chips") && holds(pods.out, "2 240 hosts")) << pods.out;
  EXPECT_TRUE(holds(ridge({"machines", "h100"}).out, "16 896")) << "lanes of all cores";
  expect_rejected({"machines", "tpu_v5e,tpu_v5p", "--csv"}, 2,
                  "ridge: expected one machine with --csv and --md, or none for the catalog, found several\n");
}

// Times, tiles and waves of a size are those of one kernel: the given tile's, or the one that the model chooses.
TEST_F(CliTest, StripesTimeTheTilesThatTheyCount) {
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"sweep", "bf16[M, K] * bf16[K, N] -> bf16[M, N]", "--stripes", "--on", "a100_40", "--json"});
    const ProcessResult outcome = ridge(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["sizes"];
  };
  const auto seconds = [](const Json& at) { return at["predicted_s"]["expected"].get<double>(); };
  std::set<double> times;
  for (const std::string tile : {"256x128", "128x128", "64x64"}) {
    const Json at = predict({"--tile", tile, "M=1408", "K=1024", "N=1152..1408:256"})[0];
    EXPECT_EQ(at["kernel"].get<std::string>().substr(0, tile.size()), tile);
    times.insert(seconds(at));
  }
  EXPECT_EQ(times.size(), 3u);
  for (const std::vector<std::string>& tile : {std::vector<std::string>{}, {"--tile", "256x128"}}) {
    std::vector<std::string> words{"M=1793", "K=1793", "N=1664,1665"};
    words.insert(words.end(), tile.begin(), tile.end());
    const Json sizes = predict(words);
    EXPECT_EQ(sizes[1]["waves"] != sizes[0]["waves"], seconds(sizes[1]) > 1.5 * seconds(sizes[0])) << sizes;
    EXPECT_EQ(sizes[1]["waves"] != sizes[0]["waves"], !tile.empty()) << "the model has a better tile than 256x128";
  }
  expect_rejected({"sweep", "bf16[M, K] * bf16[K, N] -> bf16[M, N]", "--stripes", "--tile", "128x128", "--on", "cpu",
                   "M=64", "K=64", "N=64,128"},
                  2,
                  "ridge: expected no --tile on cpu, where the plan chooses the tiles, found '128x128'\n"
                  "  hint: leave --tile out\n");
}

TEST_F(CliTest, APlanExplainsItsTime) {
  const auto plan = [&](const std::string& on, const std::string& n) {
    const ProcessResult outcome =
        ridge({"explain", "bf16[M, K] * bf16[K, N] -> bf16[M, N]", "--on", on, "--plan", "M=" + n, "N=" + n, "K=" + n});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string even = plan("h200", "2048"), odd = plan("h200", "2049");
  EXPECT_TRUE(holds(even, "0.97 of one wave; no work outside the matrix; 25.17 MB from memory, the minimum\n")) << even;
  EXPECT_TRUE(
      holds(odd,
            "rows of X (4098 B, aligned to 2 B) and Y (4098 B, aligned to 2 B) are not aligned to 16 B, so they "
            "are copied first, which moves 33.59 MB"))
      << odd;
  EXPECT_TRUE(holds(odd, "the result's rows of 4098 B are not aligned, so its elements are stored one by one")) << odd;
  EXPECT_TRUE(holds(odd, "padded to 2056 x 2056 x 2056: ")) << odd;
  EXPECT_TRUE(holds(plan("h100", "1792"), "of one wave")) << "an H100";
  EXPECT_TRUE(holds(plan("cpu", "512"), " threads; ")) << "this CPU";
}

}  // namespace
}  // namespace ridge
