// Tests output and error messages of `ridge model` about layouts of chips.
#include <nlohmann/json.hpp>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

TEST_F(CliTest, ModelDividesLayersIntoStages) {
  const std::vector<std::string> command{"model", "llama_3_70b", "--context", "8192", "--batch", "64",
                                         "--on",  "h200",        "--tp",      "8",    "--pp",    "3"};
  const ProcessResult text = ridge(command);
  EXPECT_EQ(text.err, "");
  EXPECT_TRUE(text.out.starts_with("llama_3_70b on 24 x h200 (3 hosts): a token of each of 64 sequences takes "))
      << text.out;
  EXPECT_NE(text.out.find("\nstages 3 of 26 or 27 layers; 3 micro-batches of 22 sequences, "), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("\nthe table has one micro-batch in all stages\n"), std::string::npos) << text.out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  EXPECT_EQ(json["layout"]["pp"], 3);
  EXPECT_EQ(json["hosts"], 3);
  const auto& pipeline = json["pipeline"];
  EXPECT_EQ(pipeline["micro_batches"], 3);
  EXPECT_EQ(pipeline["micro_batch"], 22);
  ASSERT_EQ(pipeline["stages"].size(), 3u);
  EXPECT_EQ(pipeline["stages"][2]["first_layer"], 54);
  double seconds = pipeline["others_s"], shares = 0;
  for (const auto& op : json["ops"]) seconds += double(op["count"]) * double(op["time_lower_s"]);
  for (const auto& share : json["shares"]) shares += double(share);
  EXPECT_NEAR(json["time_s"]["bound"], seconds, 1e-9);
  EXPECT_GE(json["time_s"]["bound"], 3 * double(pipeline["slowest_stage_s"]));
  EXPECT_NEAR(shares, 1, 1e-9);
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--pp", "33"}, 3,
                  "ridge: llama_3_8b: expected --pp of at most 32, the layers of the model, found 33\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--pp", "2"}, 2,
                  "ridge: expected --pp together with --on\n");
  expect_rejected(
      {"model", "llama_3_8b", "--context", "9", "--on", "h100", "--pp", "2", "--serve", "--output-tokens", "9"}, 2,
      "ridge: expected --serve without --rate, --pp, --ep and --dp\n"
      "  hint: served times were fitted with --tp alone\n");
}

TEST_F(CliTest, ModelRanksLayouts) {
  const std::vector<std::string> command{"model", "llama_3_70b", "--context", "8192", "--batch", "256",
                                         "--on",  "h200",        "--chips",   "64",   "--best"};
  const ProcessResult text = ridge(command);
  EXPECT_EQ(text.err, "");
  EXPECT_TRUE(text.out.starts_with(
      "llama_3_70b on 64 x h200 (8 hosts): --tp 8 --dp 8 is the best of 28 layouts: a token of each of 256 sequences "
      "of "
      "8 192 tokens takes 9.672 ms at least, 414 tokens/s a chip\nchips  tp  pp  dp  tokens/s a sequence  "))
      << text.out;
  EXPECT_NE(text.out.find("\nthe best 10 of 27 layouts; --json and --csv have all\n"
                          "h200: 1 layout does not fit in 150.8 GB; of these, --dp 64 needs the least, 151.8 GB\n"),
            std::string::npos)
      << text.out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  ASSERT_EQ(json["layouts"].size(), 28u);
  EXPECT_EQ(json["layouts"][0]["layout"]["tp"], 8);
  EXPECT_EQ(json["layouts"][0]["hosts"], 8);
  EXPECT_EQ(json["layouts"][27]["fits"], false);
  const ProcessResult none =
      ridge({"model", "gpt_3_175b", "--context", "64", "--on", "h100", "--chips", "2", "--best"});
  EXPECT_TRUE(
      none.out.starts_with("gpt_3_175b: no layout fits with 1 sequence of 64 tokens; --tp 2 on 2 x h100 needs the "
                           "least memory, 174.8 GB a chip\n"))
      << none.out;
  const ProcessResult slow =
      ridge({"model", "llama_3_8b", "--context", "64", "--rate", "5000", "--on", "h100", "--chips", "2", "--best"});
  EXPECT_TRUE(slow.out.starts_with(
      "llama_3_8b: no layout reaches 5 000 tokens/s a sequence of 64 tokens; --tp 2 on 2 x h100 comes closest with "))
      << slow.out;
  const ProcessResult prefill = ridge({"model", "llama_3_8b", "--context", "512", "--batch", "4", "--phase", "prefill",
                                       "--on", "h200", "--chips", "4", "--best"});
  EXPECT_TRUE(
      prefill.out.starts_with("llama_3_8b on 4 x h200: --dp 4 is the best of 6 layouts: prefill of 4 sequences "
                              "of 512 tokens takes "))
      << prefill.out;
}

TEST_F(CliTest, ModelSaysWhatLayoutsAreNotCheckedFor) {
  const ProcessResult answer = ridge(
      {"model", "llama_3_2_1b", "--context", "64", "--batch", "2", "--on", "xeon_8480", "--chips", "2", "--best"});
  EXPECT_NE(answer.out.find("\nxeon_8480: the capacity of its memory is not on record, so all layouts count as if they "
                            "fit\nxeon_8480: the time of a launch and the latency of its links are not on record "),
            std::string::npos)
      << answer.out;
  EXPECT_NE(answer.out.find("\nxeon_8480: no numbers for 2 layouts: machine 'xeon_8480' has no link on record\n"),
            std::string::npos)
      << answer.out;
  const ProcessResult hosts = ridge({"model", "llama_3_8b", "--context", "64", "--on", "h200,b200", "--tp", "16"});
  EXPECT_NE(hosts.out.find("\nmachine  chips  hosts  sequences  "), std::string::npos) << hosts.out;
  EXPECT_NE(hosts.out.find("\nh200        16      2          1  "), std::string::npos) << hosts.out;
}

TEST_F(CliTest, ModelShowsThroughputAgainstLatency) {
  const std::string svg = path("front.svg");
  const std::vector<std::string> command{"model",     "llama_3_8b", "--context", "8192",  "--on",
                                         "h200,b200", "--chips",    "1..2",      "--svg", svg};
  const ProcessResult front = ridge(command);
  EXPECT_EQ(front.err, "");
  EXPECT_TRUE(front.out.starts_with("llama_3_8b, sequences of 8 192 tokens on 1 to 2 chips: at most ")) << front.out;
  EXPECT_NE(front.out.find(" tokens/s a sequence (2 x b200, --tp 2) and "), std::string::npos) << front.out;
  const std::string picture = *read_file(svg);
  EXPECT_TRUE(picture.starts_with("<svg "));
  EXPECT_NE(picture.find("2 x b200, --tp 2, 1 sequence: "), std::string::npos);
  EXPECT_NE(picture.find(">b200 *</text>"), std::string::npos);
  EXPECT_NE(picture.find(">h200</text>"), std::string::npos);
  EXPECT_NE(
      picture.find(">* the time of a launch or the latency of links is not on record and counts as 0: these machines "
                   "look faster than they are<"),
      std::string::npos);
  std::vector<std::string> with_csv = command;
  with_csv.emplace_back("--csv");
  EXPECT_TRUE(ridge(with_csv).out.starts_with("machine,chips,hosts,layout.tp,")) << ridge(with_csv).out;
  const ProcessResult counts =
      ridge({"model", "llama_3_8b", "--context", "8192", "--batch", "8", "--on", "h200", "--chips", "1,2"});
  EXPECT_TRUE(counts.out.starts_with("llama_3_8b, 8 sequences of 8 192 tokens on 1 to 2 chips: at most "))
      << counts.out;
}

TEST_F(CliTest, ModelNamesTheBreakEvenBatch) {
  const std::vector<std::string> command{"model", "llama_3_8b", "--context", "64", "--on", "l40s,a100_80"};
  EXPECT_NE(ridge(command).out.find(
                "\nfrom 483 sequences on, l40s gives more tokens/s a chip than a100_80 with these chips\n"),
            std::string::npos)
      << ridge(command).out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  EXPECT_EQ(nlohmann::json::parse(ridge(with_json).out)["break_even"]["batch"], 483);
}

TEST_F(CliTest, ModelReportsInvalidLayouts) {
  const auto expect_layouts_rejected = [&](std::vector<std::string> more, int code, const std::string& message) {
    std::vector<std::string> command{"model", "llama_3_8b", "--context", "9", "--on", "h100"};
    command.insert(command.end(), more.begin(), more.end());
    expect_rejected(command, code, message);
  };
  expect_layouts_rejected({"--best"}, 2, "ridge: expected --best together with --chips\n");
  expect_layouts_rejected({"--svg", "x.svg"}, 2, "ridge: expected --svg together with --chips\n");
  expect_layouts_rejected({"--chips", "many"}, 2,
                          "ridge: expected --chips N, or a range of them, found 'many'\n"
                          "  hint: --chips 64, --chips 1..16 or --chips 8,16,32\n");
  expect_layouts_rejected({"--chips", "70000"}, 2, "ridge: expected --chips from 1 to 65536, found 70000\n");
  expect_layouts_rejected({"--chips", "4", "--tp", "2"}, 2,
                          "ridge: expected --chips without --tp\n"
                          "  hint: --chips can be combined with --dtype --cache-dtype --context --batch --on --phase "
                          "--rate --best --svg --json --csv --md\n");
  expect_layouts_rejected({"--chips", "4", "--phase", "prefill"}, 2,
                          "ridge: expected --batch or --best together with --chips and --phase prefill, found none\n"
                          "  hint: without them, the search chooses batches of decoding\n");
  expect_layouts_rejected({"--chips", "4", "--phase", "prefill", "--rate", "9"}, 2,
                          "ridge: expected --chips and --rate without --phase prefill: the rate is that of decoding\n");
  expect_layouts_rejected({"--chips", "4", "--batch", "2", "--svg", "x.svg"}, 2,
                          "ridge: expected --svg without --batch, --rate and --best\n"
                          "  hint: it plots throughput against latency, for which the search chooses batches\n");
  expect_layouts_rejected({"--chips", "47", "--batch", "2"}, 3,
                          "ridge: llama_3_8b: expected --chips that divide the model and 2 sequences, found 47\n"
                          "  hint: a power of two up to --batch times the heads\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--chips", "4"}, 2,
                  "ridge: expected --chips together with --on\n");
}

TEST_F(CliTest, ModelComparesFormats) {
  const ProcessResult one = ridge({"model", "llama_3_8b", "--context", "256", "--dtype", "int4,e4m3", "--on", "h100"});
  EXPECT_EQ(one.err, "");
  EXPECT_EQ(
      one.out,
      "llama_3_8b: with 1 sequence of 256 tokens, a chip of h100 with int4 gives the most tokens/s: at most 859, 1.96 "
      "times that of h100 with e4m3\n"
      "machine  weights  chips  sequences  tokens/s a sequence  tokens/s a chip  a token, at least  first token, at "
      "least  memory a chip  sequences that fit\n"
      "h100        int4      1          1                  859              859           1.164 ms               "
      "3.742 ms       4.049 GB               2 410\n"
      "h100        e4m3      1          1                  438              438           2.285 ms               "
      "2.712 ms       8.064 GB               2 291\n"
      "from 167 sequences on, e4m3 gives more tokens/s a chip than int4 with these chips\n");
  // The batch before, int4 still gives more.
  for (const auto& [batch, better] : {std::pair{"166", 0}, {"167", 1}}) {
    const auto json = nlohmann::json::parse(ridge({"model", "llama_3_8b", "--context", "256", "--dtype", "int4,e4m3",
                                                   "--on", "h100", "--batch", batch, "--json"})
                                                .out);
    EXPECT_EQ(json["machines"][0]["weight_dtype"], "int4");
    EXPECT_EQ(json["break_even"], (nlohmann::json{{"machine", "e4m3"}, {"other", "int4"}, {"batch", 167}}));
    const double rates[] = {json["machines"][0]["tokens_per_s"]["bound"], json["machines"][1]["tokens_per_s"]["bound"]};
    EXPECT_GT(rates[better], rates[1 - better]) << batch;
  }
  const ProcessResult several =
      ridge({"model", "llama_3_8b", "--context", "256", "--dtype", "int4,e4m3", "--on", "h100,h200"});
  EXPECT_NE(several.out.find("\nh100: from 167 sequences on, e4m3 gives more tokens/s a chip than int4 with these "
                             "chips\nh200: from 112 sequences on, e4m3 "),
            std::string::npos)
      << several.out;
  expect_rejected({"model", "llama_3_8b", "--context", "256", "--dtype", "e4m3,fp8", "--on", "h100"}, 2,
                  "ridge: expected each format of --dtype once, found e4m3 twice\n");
  expect_rejected({"model", "llama_3_8b", "--dtype", "bf16,bf16", "--on", "h100"}, 2,
                  "ridge: expected each format of --dtype once, found bf16 twice\n");
  expect_rejected({"model", "llama_3_8b", "--context", "256", "--on", "h100,H100"}, 2,
                  "ridge: expected each machine of --on once, found h100 twice\n");
  const ProcessResult planned = ridge({"model", "llama_3_8b", "--context", "256", "--on", "h100,h200", "--plan"});
  EXPECT_NE(planned.out.find("with --plan the batch from which one machine gives more is not computed: "),
            std::string::npos)
      << planned.out;
  const ProcessResult both = ridge({"model", "llama_3_8b", "--context", "256", "--on", "h100,tpu_v6e"});
  EXPECT_EQ(both.out.find("weights"), std::string::npos) << "one format needs no column";
  expect_rejected({"model", "llama_3_8b", "--dtype", "int4,e4m3"}, 2,
                  "ridge: expected several formats of --dtype together with --on, without --chips, --html and --phase "
                  "train, found --dtype int4,e4m3\n  hint: give one format\n");
  expect_rejected(
      {"model", "llama_3_8b", "--dtype", "int4,e5", "--context", "9", "--on", "h100"}, 2,
      "ridge: unknown dtype 'e5'; expected one of f64, f32, tf32, bf16, f16, e4m3, e5m2, int32, int16, int8, int4, "
      "u8, e2m1, mxfp8, mxfp4, nvfp4, e4m3_128, int4_32, int4_64, int4_128, u4_32, u4_64, u4_128\n");
}

}  // namespace
}  // namespace ridge
