// Runs the binary: modes of `explain`, `sweep`, `machines` and the manual.
#include <nlohmann/json.hpp>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

constexpr const char* matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
const std::vector<std::string> two_chips{"explain", matmul,   "--on",   "tpu_v5e", "--split",
                                         "D=2",     "--link", "4.5e10", "-d",      "B=4096"};

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(CliTest, ChecksClaimsAndSuggestsLikelyMistakes) {
  const auto check = [&](const std::vector<std::string>& arguments, const std::string& claim) {
    return ridge(with(arguments, {"--check", claim}));
  };
  const ProcessResult right = check(two_chips, "D > 8755");
  EXPECT_EQ(right.code, 0) << right.err << right.out;
  EXPECT_EQ(right.out,
            "right: D > 8755\n"
            "  D >= 8756: 2*r = 8755.56, where compute takes at least as long as network\n");
  const ProcessResult wrong = check(two_chips, "D > 4378");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(
      wrong.out,
      "wrong: D > 4378\n"
      "  D >= 8756: 2*r = 8755.56, where compute takes at least as long as network\n"
      "  likely mistake: half of it: the ratio of the two rates alone, 4377.78; the factor of two in 2*r is lost\n");
  const std::vector<std::string> dot{"explain",  "x * y: bf16[N], bf16[N] -> bf16[1]", "--on", "tpu_v5e", "-d",
                                     "N=1000000"};
  EXPECT_EQ(
      check(dot, "intensity = 2").out,
      "wrong: intensity = 2\n  intensity = 0.500000 FLOP/B\n  likely mistake: inverted: these are bytes per FLOP\n");
  EXPECT_EQ(check(dot, "intensity = 0.25").out,
            "wrong: intensity = 0.25\n  intensity = 0.500000 FLOP/B\n"
            "  likely mistake: half of it: multiply-adds were counted, and each is 2 FLOPs\n");
  EXPECT_EQ(check(dot, "intensity = 0.5").code, 0);
  EXPECT_EQ(check(dot, "limiter = memory").code, 0);
  EXPECT_EQ(check(dot, "limiter = compute").code, 1);
  EXPECT_EQ(check({"explain", "--flops", "1e12", "--bytes", "1e9", "--on", "h100"}, "bytes = 0.9313e9").out,
            "wrong: bytes = 0.9313e9\n  bytes = 1000000000 B\n  likely mistake: GiB taken for GB: 1 GiB is 1.074 GB\n");
  expect_rejected(with(dot, {"--check", "intensity"}), 2,
                  "ridge: expected a claim like 'B > 240' or 'intensity = 2', found 'intensity'\n");
  expect_rejected(
      with(dot, {"--check", "speed = 2"}), 2,
      "ridge: 'speed' is neither a dimension (N) nor one of limiter, flops, bytes, intensity, ridge, time_math, "
      "time_memory, time_network, time_lower, time_upper\n");
}

TEST_F(CliTest, PrintsSteps) {
  const std::vector<std::string> sized{"explain", matmul,   "--on", "tpu_v5e", "-d",     "B=256",
                                       "-d",      "D=8192", "-d",   "F=8192",  "--steps"};
  const std::string text = ridge(sized).out;
  for (const char* line :
       {"1. Work: a multiply and an add for each combination of the indices\n",
        "   FLOPs = 2*B*D*F\n         = 2*256*8192*8192 FLOP\n         = 34 359 738 368 FLOP = 34.36 GFLOP\n",
        "   I = FLOPs / bytes\n     = B*D*F/(B*D + B*F + D*F)\n     = 34 359 738 368 FLOP / 142 606 336 B\n     = "
        "240.94 FLOP/B\n",
        "   B >= r*D*F/(D*F - r*(D + F))\n     = r*8192*8192/(8192*8192 - r*(8192 + 8192))\n     = 255.544\n     => B "
        ">= 256\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const std::string markdown = ridge(with(sized, {"--md"})).out;
  EXPECT_TRUE(markdown.starts_with("## `bf16[B, D] * bf16[D, F] -> bf16[B, F]`\n")) << markdown;
}

TEST_F(CliTest, ComparesTwoMachinesOrPrograms) {
  const std::vector<std::string> sized{"explain", matmul, "--on", "h100", "-d", "B=64", "-d", "D=4096", "-d", "F=4096"};
  const ProcessResult machines = ridge(with(sized, {"--against", "h200", "--csv"}));
  EXPECT_EQ(machines.err, "");
  EXPECT_TRUE(machines.out.starts_with("op,quantity,h100,h200,second / first\nZ,flops,2147483648,2147483648,1\n"))
      << machines.out;
  const ProcessResult programs = ridge(with(sized, {"--against", "bf16[B, D] * int8[D, F] -> bf16[B, F]", "--json"}));
  EXPECT_EQ(nlohmann::json::parse(programs.out)["reports"][1]["ops"][0]["formulas"]["bytes"], "2*B*D + 2*B*F + D*F");
}

TEST_F(CliTest, CountsCacheLinesOfMatrices) {
  const auto lines = [&](const std::string& columns, const std::vector<std::string>& more) {
    return nlohmann::json::parse(
        ridge(with({"explain", "x: f32[N, M]\ny: f32[N, M] = cos(x)", "--on", "h100", "-d", "N=4", "-d", "M=" + columns,
                    "--lines", "4", "--line-bytes", "16", "--json"},
                   more))
            .out)["operands"][0];
  };
  EXPECT_EQ(lines("12", {})["tile_lines"], 4);
  EXPECT_EQ(lines("13", {})["tile_lines"], 7);
  EXPECT_EQ(lines("13", {})["padded_leading"], 16);
  EXPECT_EQ(lines("12", {"--ld", "x=13"})["tile_lines"], 7);
  EXPECT_EQ(lines("13", {"--ld", "x=16"})["tile_lines"], 4);
}

TEST_F(CliTest, PrintsEveryTableAsCsvAndMarkdown) {
  const auto first_lines = [&](const std::vector<std::string>& arguments) {
    const ProcessResult out = ridge(arguments);
    EXPECT_EQ(out.code, 0) << out.err;
    return out.out.substr(0, out.out.find('\n', out.out.find('\n') + 1) + 1);
  };
  EXPECT_EQ(first_lines({"kernels", "sm90_128x192x64_pingpong", "--csv"}).substr(0, 103),
            "name,config,target,tile.m,tile.n,tile.k,stages,roles,warpgroups,a_along,b_along,registers,shared_bytes\n");
  const std::vector<std::string> array{"simulate", "systolic", "--rows", "4", "--cols", "4", "--dataflow", "ws"};
  EXPECT_EQ(first_lines(with(array, {"4", "4", "4", "--csv"})),
            "array.rows,array.cols,array.dataflow,array.preload,product.m,product.n,product.k,cycles,folds,utilization,"
            "sram_words.a,sram_words.b,sram_words.c,fold.cycles,fold.load,fold.fill,fold.compute,fold.drain,"
            "mapping_efficiency,scalesim.compute_utilization,scalesim.c_words_never_written\n"
            "4,4,ws,false,4,4,4,13,1,0.3076923076923077,16,16,16,14,4,4,2,4,1.0,0.23529411764705882,0\n");
  EXPECT_EQ(first_lines({"simulate", "weights", "--md"}),
            "| name | batch | modelled_active | measured_active | why |\n| --- | ---: | ---: | ---: | --- |\n");
  EXPECT_EQ(first_lines({"simulate", std::string(RIDGE_SOURCE_DIR) + "/examples/mlp.ridge", "--on", "sn40l", "--csv"})
                .substr(0, 47),
            "rows.dim,rows.extent,rows.tile,rows.tiles,inner");
  EXPECT_EQ(first_lines({"simulate", "metapipe", std::string(RIDGE_SOURCE_DIR) + "/examples/matmul.pipe", "--csv"})
                .substr(0, 5),
            "name,");
  EXPECT_EQ(first_lines({"simulate", "kernel", "sm90_128x128x64_pingpong", "--md"}).substr(0, 12), "| kernel | k");
  for (const char* verb : {"bench", "probe"}) {
    const std::string help = ridge({verb, "--help"}).out;
    EXPECT_NE(help.find("--csv"), std::string::npos) << verb;
    EXPECT_NE(help.find("--md"), std::string::npos) << verb;
  }
}

TEST_F(CliTest, SweepsMachinesDtypesAndSizes) {
  const ProcessResult csv = ridge({"sweep", "A[B, D] * W[D, F] -> C[B, F]", "--on", "tpu_v5e,h100", "--dtype",
                                   "bf16,int8", "-d", "B=128..512:*2", "D=8192", "F=8192", "--csv"});
  EXPECT_EQ(csv.err, "");
  EXPECT_TRUE(csv.out.starts_with(
      "machine,dtype,B,D,F,flops,bytes,intensity,limiter,time_lower_s,time_upper_s,crossover,unknown\n"
      "tpu_v5e,bf16,128,8192,8192,17179869184,138412032,124.1212,memory,"))
      << csv.out;
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 1 + 2 * 2 * 3);
  EXPECT_NE(csv.out.find("tpu_v5e,bf16,256,8192,8192,34359738368,142606336,240.9412,compute,"), std::string::npos);
  const auto json = nlohmann::json::parse(
      ridge({"sweep", matmul, "--on", "tpu_v5e", "-d", "D=8192", "F=8192", "B=1..1024", "--json"}).out);
  EXPECT_EQ(json["lines"][0]["crossovers"], nlohmann::json::array({255}));
  const std::string matmul_b_last =
      ridge({"sweep", matmul, "--on", "tpu_v5e", "-d", "D=8192", "F=8192", "B=1..1024", "--md"}).out;
  EXPECT_NE(matmul_b_last.find("| tpu_v5e | bf16 | B = 256 | memory to compute |"), std::string::npos) << matmul_b_last;
  expect_rejected({"sweep", matmul, "-d", "B=1.."}, 2,
                  "ridge: expected NAME=VALUES, found 'B=1..'\n  hint: -d B=256, -d B=1,8,64, -d B=1..4096:*2, or -d "
                  "B=128..512:128\n");
  expect_rejected(
      {"sweep", matmul, "--on", "h100", "-d", "B=1..5000", "D=1..5000", "F=1"}, 2,
      "ridge: expected at most 16777216 points, found more\n  hint: take larger steps, or fewer dimensions at a "
      "time\n");
  expect_rejected({"sweep", matmul, "--on", "h100", "-d", "B=1"}, 2,
                  "ridge: dimension 'D' has no value\n  hint: give it one or several: -d D=256, -d D=1..4096:*2\n");
}

TEST_F(CliTest, ReportsWhySweepPointsAreUnknown) {
  const std::vector<std::string> far{"sweep", matmul, "--on", "tpu_v5e", "-d", "B=8", "F=9e18", "D=1,1e18,9e18"};
  const std::string text = ridge(far).out;
  EXPECT_NE(text.find("\nunknown at 2 points: a count exceeds 10^38\n"), std::string::npos) << text;
  const std::string csv = ridge(with(far, {"--csv"})).out;
  EXPECT_NE(csv.find("\ntpu_v5e,bf16,8,9000000000000000000,1000000000000000000,,,,,,,,a count exceeds 10^38\n"),
            std::string::npos)
      << csv;
  const auto json = nlohmann::json::parse(ridge(with(far, {"--json"})).out);
  EXPECT_EQ(json["lines"][0]["unknown"], (nlohmann::json{{"a count exceeds 10^38", {1, 2}}}));
  EXPECT_EQ(json["lines"][0]["flops"][1], nullptr);
}

TEST_F(CliTest, SweepsASplitWithNetworkTimes) {
  const std::vector<std::string> cut{"sweep", matmul, "--on", "tpu_v5e", "--split",
                                     "D=2,4", "-d",   "B=8",  "F=8",     "D=6..9"};
  const std::string csv = ridge(with(cut, {"--csv"})).out;
  EXPECT_NE(csv.find(",time_upper_s,time_network_s,bytes_sent,crossover,unknown\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\ntpu_v5e,bf16,4,8,8,8,256,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\ntpu_v5e,bf16,4,8,8,9,384,"), std::string::npos) << "three of nine on the largest part\n" << csv;
}

TEST_F(CliTest, ModesPrintTheirResults) {
  EXPECT_EQ(
      ridge({"explain", matmul, "--on", "a100_40", "--tile", "256x128", "-d", "B=1793", "-d", "D=8", "-d", "F=1793"})
          .out,
      "op       result  tiles  cores  waves  slots used  outside the matrix\n"
      "Z   1793 x 1793    120    108      2      55.6 %              18.2 %\n");
  EXPECT_EQ(ridge({"explain", "--on", "tpu_v5e", "--link", "ici", "--send", "17e6", "--hops", "6"}).out,
            "17.00 MB over 2 x ici, 6 hops: first byte after 6.000 us, last byte after 176.0 us, of which sending "
            "takes 170.0 us\n");
  expect_rejected(
      {"explain", matmul, "--on", "h100", "--between", "Z"}, 2,
      "ridge: expected STATEMENTS=STATEMENTS after --between, found 'Z'\n  hint: --between 's, o = q, k, v'\n");
  const auto sustained = nlohmann::json::parse(
      ridge({"explain", matmul, "--on", "tpu_v5e", "--split", "D=2", "--sustained", "--json"}).out);
  EXPECT_EQ(sustained["network"]["bytes_per_s_one_way"], 45e9);
}

TEST_F(CliTest, PrintsTablesForOtherPrograms) {
  const std::vector<std::string> sized{"explain", matmul, "--on", "h100", "-d", "B=64", "-d", "D=4096", "-d", "F=4096"};
  EXPECT_EQ(ridge(with(sized, {"--csv"})).out,
            "op,flops,bytes,intensity,ridge,limiter,time_lower_s,time_upper_s\n"
            "Z,2147483648,34603008,62.06060606060606,295.34328358208955,memory,1.0329256119402985e-05,"
            "1.2499746970423805e-05\n"
            "total,2147483648,34603008,62.06060606060606,295.34328358208955,memory,1.0329256119402985e-05,"
            "1.2499746970423805e-05\n");
  EXPECT_TRUE(ridge(with(sized, {"--md"})).out.starts_with("### `bf16[B, D]"));
  EXPECT_TRUE(ridge({"machines", "--csv"}).out.starts_with("name,matrix_bf16_flops_per_s,vector_f32_flops_per_s,"))
      << "bare numbers";
  EXPECT_TRUE(ridge({"machines", "--md"}).out.starts_with("| name | matrix bf16 | vector f32 | memory |"));
  EXPECT_NE(ridge({"machines", "h200", "--csv"}).out.find("matrix.bf16.sustained,788000000000000,FLOP/s,measured,"),
            std::string::npos);
  ASSERT_EQ(ridge(with(sized, {"--html", path("page.html")})).code, 0);
  EXPECT_TRUE(read_file(path("page.html"))->starts_with("<!doctype html>"));
}

// Tests the number of interactive subjects of a page, and its size.
TEST_F(CliTest, WritesPagesOfReportsAndSweeps) {
  const std::string page = path("page.html"), mlp = std::string(RIDGE_SOURCE_DIR) + "/examples/mlp.ridge";
  const auto subjects = [&](const std::vector<std::string>& words) {
    const ProcessResult outcome = ridge(with(words, {"--html", page}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::string html = *read_file(page), opening = "id=\"data\">";
    EXPECT_LE(html.size(), 300'000u);
    const std::size_t begin = html.find(opening) + opening.size();
    return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin))["subjects"].size();
  };
  EXPECT_EQ(subjects({"explain", mlp, "--on", "h100"}), 1u);
  EXPECT_EQ(subjects({"explain", mlp, "--on", "h100", "--fuse", "g,u,h"}), 1u);
  EXPECT_EQ(subjects({"explain", mlp, "--on", "h100,h200"}), 2u);
  EXPECT_EQ(subjects({"explain", mlp, "--on", "h100", "--against", matmul}), 2u);
  EXPECT_EQ(subjects({"explain", matmul, "--on", "h100", "--split", "D=2"}), 1u);
  EXPECT_EQ(subjects({"explain", "--flops", "1e12", "--bytes", "1e9", "--on", "h100"}), 0u) << "nothing to move";
  EXPECT_EQ(subjects({"sweep", matmul, "--on", "h100,h200", "-d", "B=1..64:*2", "D=64", "F=64"}), 2u);
  const ProcessResult refused = ridge({"explain", mlp, "--on", "h100", "--html", "-"});
  EXPECT_EQ(refused.err,
            "ridge: expected a file for the picture or page, found '-': the standard output is for text\n"
            "  hint: --svg picture.svg\n");
}

TEST_F(CliTest, CompletesAndDocumentsEveryVerbAndOption) {
  const std::string help = ridge({"sweep", "--help"}).out, bash = ridge({"completion", "bash"}).out,
                    page = ridge({"man"}).out;
  for (const char* word : {"--dtype", "--on", "--csv", "--svg"}) {
    EXPECT_NE(help.find(word), std::string::npos);
    EXPECT_NE(bash.find(word), std::string::npos);
  }
  for (const char* heading : {".SH SWEEP", ".SH EXPLAIN", ".SH SIMULATE SYSTOLIC", "\\-\\-check"})
    EXPECT_NE(page.find(heading), std::string::npos) << heading;
  EXPECT_NE(ridge({"completion", "fish"}).out.find("complete -c ridge"), std::string::npos);
  EXPECT_TRUE(ridge({"completion", "zsh"}).out.starts_with("#compdef ridge\n"));
}

}  // namespace
}  // namespace ridge
