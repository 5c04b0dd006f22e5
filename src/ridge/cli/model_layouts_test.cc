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

}  // namespace
}  // namespace ridge
