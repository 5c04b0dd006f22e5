// Tests output and error messages of `ridge model`.
#include <nlohmann/json.hpp>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

TEST_F(CliTest, ModelAnswersInItsFirstLine) {
  const ProcessResult llama = ridge({"model", "llama_3_8b"});
  EXPECT_EQ(llama.err, "");
  EXPECT_TRUE(
      llama.out.starts_with("llama_3_8b: 8.030 G parameters; 16.06 GB of weights (bf16); 131.1 kB of cache per "
                            "token (bf16)\n\npart "))
      << llama.out;
  const ProcessResult gemma = ridge({"model", "gemma_2_2b", "--context", "8192", "--batch", "2"});
  EXPECT_NE(gemma.out.find("\n2 sequences of 8 192 tokens: 1.309 GB of cache; 1.745 GB if an engine ignores the "
                           "windows\n"),
            std::string::npos)
      << gemma.out;
}

TEST_F(CliTest, ModelPrintsJsonAndCsv) {
  const auto mixtral = nlohmann::json::parse(
      ridge({"model", "mixtral_8x7b", "--context", "10", "--cache-dtype", "e4m3", "--dtype", "f32", "--json"}).out);
  EXPECT_EQ(mixtral["parameters"], 46702792704);
  EXPECT_EQ(mixtral["active_parameters"], 12879925248);
  EXPECT_EQ(mixtral["weight_bytes"], 4 * 46702792704);
  EXPECT_EQ(mixtral["kv_bytes_per_token"], 65536);
  EXPECT_EQ(mixtral["memory"]["cache_bytes"], 655360);
  EXPECT_EQ(mixtral["layers"].size(), 32u);
  EXPECT_NE(ridge({"model", "mixtral_8x7b", "--csv"}).out.find("\nrouted experts,32,45097156608,11274289152,"),
            std::string::npos);
}

TEST_F(CliTest, ModelReportsInvalidArguments) {
  expect_rejected({"model"}, 2, "ridge: expected a CONFIG, found none\n  hint: ridge model llama_3_8b\n");
  expect_rejected({"model", "llama_3_8b", "--batch", "2"}, 2, "ridge: expected --batch together with --context\n");
  expect_rejected({"model", "llama_3_8b", "--context", "0"}, 2,
                  "ridge: expected --context from 1 to 4294967296 tokens, found 0\n");
  expect_rejected({"model", "llama_3_7b"}, 4,
                  "ridge: unknown model 'llama_3_7b'; expected a name of models/, a config.json or its folder\n"
                  "  hint: did you mean llama_2_7b?\n");
  expect_rejected({"model", path("none.json")}, 3,
                  "ridge: cannot read 'FOLDER/none.json': No such file or directory\n");
  expect_rejected({"model", file("wrong.json", R"({"model_type": "lama", "hidden_size": 8})")}, 3,
                  "FOLDER/wrong.json: model_type: expected one of llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, "
                  "gemma2, gemma3_text, gpt_oss, gpt2, deepseek_v3, kimi_k2, found 'lama'\n"
                  "  hint: did you mean 'llama'?\n");
}

}  // namespace
}  // namespace ridge
