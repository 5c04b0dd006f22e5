// Runs the binary: the first screen of `explain`, its details, and unsupported combinations of options.
#include <nlohmann/json.hpp>
#include <sstream>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

using Json = nlohmann::json;

constexpr const char* matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
constexpr const char* layer = R"(# A layer of Llama-3-70B, prefill
dims B = 1, S = 2048, D = 8192, H = 8, G = 8, E = 128, T = S, F = 28672
x: bf16[B, S, D]
wq: bf16[D, H, G, E]   wk: bf16[D, H, E]   wv: bf16[D, H, E]   wo: bf16[H, G, E, D]
kc: bf16[B, T, H, E]   vc: bf16[B, T, H, E]
gate: bf16[D, F]   up: bf16[D, F]   down: bf16[F, D]
n[B, S, D] = rmsnorm(x over D)
q[B, S, H, G, E] = n * wq
k: bf16[B, S, H, E] = n * wk
v: bf16[B, S, H, E] = n * wv
s[B, H, G, S, T] = q * kc
p[B, H, G, S, T] = softmax(where(index(T) <= index(S), s * 0.0883883, -inf) over T)
a[B, S, H, G, E] = p * vc
o[B, S, D] = a * wo
r[B, S, D] = x + o
m[B, S, D] = rmsnorm(r over D)
g[B, S, F] = m * gate
u[B, S, F] = m * up
h[B, S, F] = silu(g) * u
y[B, S, D] = h * down
z: bf16[B, S, D] = r + y
)";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) out.push_back(line);
  return out;
}

std::size_t blank_after(const std::vector<std::string>& lines, std::size_t from) {
  while (from < lines.size() && !lines[from].empty()) ++from;
  return from;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(CliTest, ExplainsALayerOnOneScreen) {
  const ProcessResult outcome = ridge({"explain", file("layer.ridge", layer), "--on", "h100"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  const std::size_t end = blank_after(lines, blank_after(lines, 0) + 1);  // Title and sizes, a blank line, the answer
  EXPECT_LE(end, 15u) << outcome.out;
  std::string screen;
  for (std::size_t i = 0; i < end; ++i) screen += lines[i] + "\n";
  for (const char* part : {"compute-bound: ", " (perfect overlap) in ", "largest  ", "fuse s, p, a",
                           "int8 or fp8 weights", "8 chips, ", "S < 310: g, u, y memory-bound"})
    EXPECT_TRUE(holds(screen, part)) << part << "\n" << screen;
  for (const std::string& line : lines) EXPECT_TRUE(line.size() <= 120 || holds(line, "datasheet")) << line;
}

TEST_F(CliTest, FourStatementsFitIntoFortyTwoLines) {
  for (const char* program : {"mlp.ridge", "softmax.ridge", "geglu.ridge"}) {
    const ProcessResult outcome =
        ridge({"explain", std::string(RIDGE_SOURCE_DIR) + "/examples/" + program, "--on", "h200"});
    EXPECT_LE(lines_of(outcome.out).size(), 42u) << outcome.out;
  }
}

TEST_F(CliTest, PrintsRelevantThresholdsAndOthersWithAll) {
  const std::string mlp = std::string(RIDGE_SOURCE_DIR) + "/examples/mlp.ridge";
  const std::string asked = ridge({"explain", mlp, "--on", "h200", "-d", "B=64"}).out,
                    all = ridge({"explain", mlp, "--on", "h200", "-d", "B=64", "--all"}).out;
  EXPECT_TRUE(holds(asked, "B >= 221  g, u, y  compute-bound")) << asked;
  EXPECT_FALSE(holds(asked, "every D")) << asked;
  EXPECT_TRUE(holds(all, "D       memory-bound for every D")) << all;
  EXPECT_TRUE(holds(all, "223*r*D*F/(223*D*F + 18139*F")) << all;
}

TEST_F(CliTest, JsonHasTheContentsOfTheFirstScreen) {
  const std::string program = file("layer.ridge", layer);
  const Json summary = Json::parse(ridge({"explain", program, "--on", "h100", "--json"}).out)["summary"];
  EXPECT_EQ(summary["limiter"], "compute");
  ASSERT_EQ(summary["largest"].size(), 5u);
  EXPECT_GT(summary["largest"][0]["share"], summary["largest"][4]["share"]);
  int sizes = 0, gains = 0;
  for (const Json& step : summary["next"]) {
    step["gain_s"].is_null() ? ++sizes : ++gains;
    const std::string command = step["command"];
    EXPECT_TRUE(command.starts_with("ridge explain " + program + " --on h100")) << command;
  }
  EXPECT_GE(sizes, 2);
  EXPECT_GE(gains, 3);
}

// Each command that the first screen suggests runs and predicts the suggested time.
TEST_F(CliTest, EveryNextStepPredictsTheSuggestedTime) {
  const Json report = Json::parse(ridge({"explain", file("layer.ridge", layer), "--on", "h100", "S=64", "--json"}).out);
  for (const Json& step : report["summary"]["next"]) {
    std::vector<std::string> words;
    std::istringstream command(step["command"].get<std::string>());
    for (std::string word; command >> word;) words.push_back(word);
    words.erase(words.begin());
    words.push_back("--json");
    const ProcessResult shown = ridge(words);
    ASSERT_EQ(shown.code, 0) << step << shown.err;
    if (step["time_s"].is_null()) continue;
    EXPECT_DOUBLE_EQ(Json::parse(shown.out)["total"]["time_lower_s"], step["time_s"]) << step;
  }
}

constexpr const char* small_layer =
    "dims B = 16, D = 4096, F = 14336\nx: bf16[B, D]   up: bf16[D, F]   down: bf16[F, D]\nu[B, F] = x * up\n"
    "h[B, F] = gelu(u)\ny: bf16[B, D] = h * down\n";

TEST_F(CliTest, PrintsTheBalanceOfTheProgramAndTotalsOfLayers) {
  const std::string program = file("small.ridge", small_layer);
  const ProcessResult one = ridge({"explain", program, "--on", "h100", "B=16"});
  EXPECT_TRUE(holds(one.out,
                    "\nbalance  compute time exceeds memory time: each product for B >= 326; 3 kernels for B >= 340; "
                    "one kernel for B >= 302\n"))
      << one.out;
  EXPECT_TRUE(holds(one.out,
                    ": fits; each dimension alone up to B = 1301360; 117.4 M parameters\n"
                    "inputs   parameters up, down 234.9 MB; activations x 131.1 kB\n"))
      << one.out;
  const ProcessResult many = ridge({"explain", program, "--on", "h100", "B=16", "--layers", "1000"});
  EXPECT_TRUE(
      holds(many.out,
            "\nlayers   1000 of these: at least 71.77 ms (perfect overlap); 234.9 GB of hbm's 85.52 GB: does not "
            "fit, 149.4 GB too many; needs 3 chips\n"))
      << many.out;
  const Json json = Json::parse(ridge({"explain", program, "--on", "h100", "B=16", "--layers", "1000", "--json"}).out);
  const double kept = 2.0 * 4096 * 14336 * 2;
  EXPECT_EQ(json["layers"]["footprint_bytes"], json["memory"]["footprint_bytes"].get<double>() + 999 * kept);
  EXPECT_DOUBLE_EQ(json["layers"]["time_lower_s"], 1000 * json["total"]["time_lower_s"].get<double>());
  expect_rejected(
      {"explain", program, "--layers", "0"}, 2,
      "ridge: --layers: expected a whole number from 1 to 1048576, found '0'\n  hint: ridge explain --help\n");
}

TEST_F(CliTest, PredictsLayersWithTheirPlan) {
  const std::string program = file("small.ridge", small_layer);
  const ProcessResult planned = ridge({"explain", program, "--on", "h200", "--layers", "32", "--plan"});
  EXPECT_TRUE(holds(planned.out, "\nlayers   32 of these: ")) << planned.out << planned.err;
  EXPECT_TRUE(holds(planned.out, " predicted, ")) << planned.out;
  const Json json = Json::parse(ridge({"explain", program, "--on", "h200", "--layers", "32", "--plan", "--json"}).out);
  for (const char* bound : {"low", "expected", "high"})
    EXPECT_DOUBLE_EQ(json["layers"]["predicted_s"][bound], 32 * json["total"]["predicted_s"][bound].get<double>());
}

TEST_F(CliTest, ExplainsWithoutASize) {
  const std::string program = file("open.ridge",
                                   "dims B\nx: bf16[B, 4096]   up: bf16[4096, 14336]   down: bf16[14336, "
                                   "4096]\nu[B, 14336] = x * up\ny: bf16[B, 4096] = u * down\n");
  const ProcessResult open = ridge({"explain", program, "--on", "h100"});
  EXPECT_TRUE(open.out.starts_with(
      "open.ridge  on h100 (NVIDIA H100 SXM)\ndims  B = ?\n\n"
      "no times yet: B has no value; -d B=16 sets it\n"
      "balance  compute time exceeds memory time: each product for B >= 326; 2 kernels for B >= 326; "
      "one kernel for B >= 302\n"
      "memory   parameters only: 234.9 MB of hbm's 85.52 GB: fits\ninputs   parameters up, down "
      "234.9 MB; activations x\n"))
      << open.out;
}

TEST_F(CliTest, FusesOneChipsPart) {
  const std::string program = file("small.ridge", small_layer);
  const ProcessResult both = ridge({"explain", program, "--on", "h100", "--split", "F=8", "--fuse", "u,h,y"});
  EXPECT_TRUE(holds(both.out, "one of 8 chips, F split\n")) << both.out << both.err;
  EXPECT_TRUE(holds(both.out, "\nu, h, y")) << both.out;
  EXPECT_TRUE(holds(both.out, "\nfused: intermediates stay ")) << both.out;
  expect_rejected({"explain", program, "--on", "h100", "--plan", "--fuse", "u,h"}, 2,
                  "ridge: expected --fuse without --plan: a plan chooses which statements share a kernel\n"
                  "  hint: remove --fuse or --plan\n");
}

TEST_F(CliTest, NamesTheThresholdOfAClaim) {
  const std::string program = file("small.ridge", small_layer);
  const ProcessResult first = ridge({"explain", program, "--on", "h100", "--check", "B > 319"});
  EXPECT_TRUE(first.out.ends_with("  this is the threshold of u: write u.B, OPERATION.B or total.B to select one\n"))
      << first.out;
  EXPECT_FALSE(holds(ridge({"explain", program, "--on", "h100", "--check", "u.B > 319"}).out, "threshold of"));
}

TEST_F(CliTest, ANamedLinkKeepsItsTopologyAtAnotherRate) {
  const std::string program = file("small.ridge", small_layer);
  const auto network = [&](const std::string& link) {
    const std::string out = ridge({"explain", program, "--on", "h100", "--split", "F=8", "--link", link}).out;
    const std::size_t at = out.find("network: ");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(network("nvlink=1e9"),
            "network: 18 x nvlink: directly through a switch, 18.00 GB/s one way; the latency of a collective is not "
            "on record");
  EXPECT_EQ(network("1e9"),
            "network: link: one ring, one way, 1.000 GB/s one way; the latency of a collective is not on record");
  expect_rejected({"explain", program, "--on", "h100", "--split", "F=8", "--link", "nvlink=fast"}, 2,
                  "ridge: expected a rate in B/s, one way, or a link of h100 after --link, found 'nvlink=fast'\n"
                  "  hint: it has nvlink, scaleout, pcie\n");
}

TEST_F(CliTest, RanksMachinesInOneTable) {
  const std::vector<std::string> words{"explain", matmul, "--on", "h100,H200,b200", "B=16", "D=8192", "F=8192"};
  const std::vector<std::string> lines = lines_of(ridge(words).out);
  ASSERT_GE(lines.size(), 7u);
  EXPECT_TRUE(lines[4].starts_with("b200 ") && lines[5].starts_with("h200 ") && lines[6].starts_with("h100 "));
  std::vector<std::string> json = words, csv = words, steps = words;
  json.push_back("--json");
  csv.push_back("--csv");
  steps.push_back("--steps");
  const Json ranking = Json::parse(ridge(json).out);
  ASSERT_EQ(ranking["machines"].size(), 3u);
  EXPECT_EQ(ranking["machines"][1]["machine"]["name"], "h200");
  EXPECT_TRUE(ridge(csv).out.starts_with("machine,limiter,time_lower_s,time_upper_s,over_fastest,fused_time_lower_s,"));
  EXPECT_EQ(ridge(steps).code, 2);
  std::vector<std::string> layers = words;
  layers.insert(layers.end(), {"--layers", "32"});
  EXPECT_TRUE(holds(ridge(layers).out,
                    "times are of one of 32 layers; --on b200 alone prints those of all and their memory\n"));
}

TEST_F(CliTest, AcceptsSizesAndProgramInAnyPosition) {
  const auto time = [&](const std::vector<std::string>& words) {
    const ProcessResult outcome = ridge(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["total"]["time_lower_s"];
  };
  const Json usual = time({"explain", matmul, "--on", "h100", "-d", "B=16", "-d", "D=8", "-d", "F=4", "--json"});
  EXPECT_EQ(time({"explain", matmul, "B=16", "D=8", "F=4", "--on", "h100", "--json"}), usual);
  EXPECT_EQ(time({"explain", "B=16", "--json", "D=8", "--on", "H100", matmul, "F=4"}), usual);
  EXPECT_EQ(ridge({"run", "N=4", "x: f32[N]\ny: f32[N] = cos(x)"}).code, 0);
  expect_rejected({"explain", "-d", "B=1", matmul, "B=2"}, 2,
                  "ridge: dimension 'B' is given twice, as 1 and as 2\n  hint: give each dimension once\n");
}

TEST_F(CliTest, RunsNarrowFloatsOnACpu) {  // `run` compares each result with fp64
  for (const char* program :
       {"e4m3[13, K] * e4m3[K, 37] -> bf16[13, 37]", "e4m3[13, K] * bf16[37, K] -> f32[13, 37]",
        "e4m3[13, K] * int8[K, 37] -> f32[13, 37]", "tf32[K, 13] * tf32[K, 37] -> f32[13, 37]",
        "tf32[13, K] * bf16[K, 37] -> f32[13, 37]", "x: e4m3[3, 13, K]  w: e4m3[37, 3, K]\ny: f16[3, 13, 37] = x * w",
        "x: e4m3[13, K]  w: e4m3[37, K]\nh[13, 37] = x * w\ny: f16[13, 37] = relu(h)"}) {
    const ProcessResult outcome = ridge({"run", program, "-d", "K=130", "--runs", "1"});
    EXPECT_EQ(outcome.code, 0) << program << outcome.err;
  }
}

TEST_F(CliTest, RejectsUnusedOptions) {
  const auto refused = [&](const std::vector<std::string>& options, const std::string& message) {
    std::vector<std::string> words{"explain", matmul, "--on", "h100", "B=16", "D=8", "F=4"};
    words.insert(words.end(), options.begin(), options.end());
    const ProcessResult outcome = ridge(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_TRUE(outcome.err.starts_with("ridge: " + message + "\n")) << outcome.err;
  };
  refused({"--steps", "--json"}, "expected --steps without --json");
  refused({"--steps", "--csv"}, "expected --steps without --csv");
  for (const char* form : {"--against", "--check"})
    refused({form, "B > 3", "--svg", "x.svg"}, std::string("expected ") + form + " without --svg");
  refused({"--chain", "--svg", "x.svg"}, "expected --chain without --svg");
  refused({"--cost", "cos=3"}, "expected --cost together with --chain");
  refused({"--ld", "X=3"}, "expected --ld together with --lines");
  refused({"--line-bytes", "32"}, "expected --line-bytes together with --lines");
  refused({"--check", "B > 3", "--csv"}, "expected --check without --csv");
  refused({"--roofs"}, "expected --roofs together with --svg or --html: it adds lines to the plot");
  refused({"--all", "--json"}, "expected --all without --json, --csv and --md, which are always complete");
  refused({"--split", "B=2", "--split", "D=2"}, "'X' has both B and D, which cannot be split over the same chips");
  refused({"--on"}, "expected a value after --on, found none");
  expect_rejected(
      {"bench", "stream", "--against", "onednn"}, 2,
      "ridge: expected stream without --against\n  hint: stream can be combined with --on --threads --rounds "
      "--only --json "
      "--csv --md\n");
  expect_rejected({"completion", "tcsh"}, 2,
                  "ridge: SHELL: expected bash, zsh or fish, found 'tcsh'\n  hint: ridge completion --help\n");
  expect_rejected({"run", matmul, "--threads", "0"}, 2,
                  "ridge: --threads: expected a whole number from 1 to 4096, found '0'\n  hint: ridge run --help\n");
}

TEST_F(CliTest, ClaimsThatDependOnSizesAreUndecided) {
  const std::vector<std::string> open{"explain", matmul, "--on", "h100", "--check", "B > 300"};
  const ProcessResult text = ridge(open);
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out,
            "undecided: B > 300\n"
            "  B >= r*D*F/(D*F - r*(D + F)); 295.343 where B << D, F, where compute takes at least as long as memory\n"
            "  it depends on D, F: set a value with -d D=N\n");
  const auto check_result = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = open;
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("--json");
    return Json::parse(ridge(words).out);
  };
  EXPECT_EQ(check_result({})["verdict"], "undecided");
  EXPECT_EQ(check_result({})["depends_on"], (Json{"D", "F"}));
  EXPECT_EQ(check_result({"D=8192", "F=8192"})["verdict"], "wrong");    // Holds from 319
  EXPECT_EQ(check_result({"D=36000", "F=36000"})["verdict"], "right");  // Holds from 301
  EXPECT_EQ(ridge({"explain", matmul, "--on", "h100", "--check", "intensity = 2"}).out,
            "undecided: intensity = 2\n  intensity has no value yet\n  it depends on B, D, F: set a value with -d "
            "B=N\n");
}

TEST_F(CliTest, PrintsTheSameRowsInEveryFormat) {
  const std::string program = file("layer.ridge", layer), page = path("page.html");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--split", "F=8"}}) {
    std::vector<std::string> words{"explain", program, "--on", "h100"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string text = ridge(words).out;
    std::vector<std::string> html = words, csv = words, md = words;
    html.insert(html.end(), {"--html", page});
    csv.push_back("--csv");
    md.push_back("--md");
    ASSERT_EQ(ridge(html).code, 0);
    EXPECT_TRUE(holds(text, "\nfused "));
    EXPECT_TRUE(holds(*read_file(page), ">fused</th>"));
    EXPECT_TRUE(holds(ridge(csv).out, "\nfused,"));
    EXPECT_TRUE(holds(ridge(md).out, "| fused |"));
    EXPECT_TRUE(holds(ridge(md).out, "| no overlap |"));
  }
}

TEST_F(CliTest, EveryVerbPrintsItsSchema) {
  for (const char* verb : {"explain", "run", "sweep", "simulate", "model", "probe", "bench", "kernels", "machines"}) {
    const ProcessResult outcome = ridge({verb, "--schema"});
    EXPECT_EQ(outcome.code, 0) << verb << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)["$schema"], "https://json-schema.org/draft/2020-12/schema") << verb;
  }
}

TEST_F(CliTest, SweepsFindLimiterChangesBetweenPoints) {
  const std::string svg = path("s.svg");
  const ProcessResult outcome =
      ridge({"sweep", matmul, "--on", "h100,b200", "D=8192", "F=28672", "B=1..4096:*2", "--svg", svg});
  EXPECT_TRUE(holds(outcome.out, "h100     bf16   B = 310  memory to compute")) << outcome.out;
  EXPECT_TRUE(holds(outcome.out, "b200     bf16   B = 295  memory to compute")) << outcome.out;
  EXPECT_TRUE(holds(*read_file(svg), "h100: compute from B = 310<"));
  ASSERT_EQ(ridge({"sweep", file("layer.ridge", layer), "--on", "h100", "S=1..65536:*2", "--svg", svg}).code, 0);
  const std::string picture = *read_file(svg);
  EXPECT_TRUE(holds(picture, ">layer.ridge<")) << "the title is the file's name";
  EXPECT_TRUE(holds(picture, ", memory from ")) << "the change back is named";
  EXPECT_TRUE(holds(picture, "dotted: fused"));
  const Json json =
      Json::parse(ridge({"sweep", matmul, "--on", "h100", "D=8192", "F=28672", "B=1..4096:*2", "--json"}).out);
  EXPECT_EQ(json["schema"], "ridge.sweep/1");
  EXPECT_EQ(json["lines"][0]["changes"][0]["first"], 310);
  expect_rejected({"sweep", matmul, "--on", "h100", "--dtype", "bf16,int8", "D=8", "F=8", "B=1..4"}, 2,
                  "ridge: expected tensors without a dtype with --dtype, found that every tensor declares its own\n"
                  "  hint: --dtype sets all dtypes of A[B, D] * W[D, F] -> C[B, F]; x: bf16[B, D] declares its own\n");
}

TEST_F(CliTest, RunsTheRequestedNumberOfTimes) {
  const std::vector<std::string> words{"run", "x: f32[N]\ny: f32[N] = x + x", "N=1000", "--json"};
  const auto runs = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const ProcessResult outcome = ridge(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["total"]["measured_s"]["runs"].get<int>();
  };
  EXPECT_EQ(runs({"--runs", "17"}), 17);
  EXPECT_EQ(runs({"--runs", "1"}), 1);
  EXPECT_GT(runs({"--time", "300ms"}), 1000);
  expect_rejected(
      {"run", matmul, "--time", "soon"}, 2,
      "ridge: expected a time above 0 and at most an hour after --time, found 'soon'\n  hint: --time 2s, --time "
      "500ms\n");
  expect_rejected({"run", matmul, "--time", "2s", "--runs", "3"}, 2,
                  "ridge: expected either --runs or --time, found both\n");
}

TEST_F(CliTest, RunsTwoProgramsAlternately) {
  const std::string once = file("once.ridge", "x: f32[N]\ny: f32[N] = repeat(4, cos, x)"),
                    more = file("more.ridge", "x: f32[N]\ny: f32[N] = repeat(64, cos, x)");
  const ProcessResult text = ridge({"run", once, "--against", more, "N=100000", "--runs", "20"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(holds(text.out, "more.ridge takes ")) << text.out;
  EXPECT_TRUE(holds(text.out, ", 20 pairs)")) << text.out;
  const Json json = Json::parse(ridge({"run", once, "--against", more, "N=100000", "--runs", "20", "--json"}).out);
  EXPECT_EQ(json["schema"], "ridge.against/1");
  EXPECT_GT(json["ratio"]["low"], 2);
  EXPECT_EQ(json["ratio"]["pairs"], 20);
  expect_rejected(
      {"run", once, "--against", more, "N=8", "--svg", "x.svg"}, 2,
      "ridge: expected --against without --svg\n  hint: --against can be combined with -d --dtype --seed --threads "
      "--runs "
      "--time --no-fuse --json --csv --md --html\n");
}

TEST_F(CliTest, RejectsABinaryMachineFile) {
  expect_rejected({"explain", matmul, "--on",
                   file("binary.toml", std::string("\x7f"
                                                   "ELF\0\0\1",
                                                   7))},
                  3, "FOLDER/binary.toml: expected a machine file in TOML, found a binary file\n");
}

TEST_F(CliTest, DrawsTheRoofOfALimitingLink) {
  const std::string svg = path("p.svg");
  ASSERT_EQ(
      ridge({"explain", matmul, "--on", "tpu_v5e", "B=4096", "D=4096", "F=8192", "--split", "D=4", "--svg", svg}).code,
      0);
  EXPECT_TRUE(holds(*read_file(svg), "class=\"slope\"")) << "a roof of its own";
  EXPECT_TRUE(holds(*read_file(svg), "at FLOPs per byte sent"));
}

}  // namespace
}  // namespace ridge
