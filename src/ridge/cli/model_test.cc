// Tests output and error messages of `ridge model`.
#include <fmt/format.h>

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

TEST_F(CliTest, ModelPredictsPhasesOnMachines) {
  const ProcessResult decode = ridge({"model", "llama_3_8b", "--context", "8192", "--batch", "16", "--on", "h100"});
  EXPECT_EQ(decode.err, "");
  EXPECT_TRUE(decode.out.starts_with(
      "llama_3_8b on h100: a token of each of 16 sequences takes 9.623 ms at least: 1 663 tokens/s, 104 a sequence\n"
      "first token after 133.7 ms at least (8 192 tokens of one sequence)\n"
      "memory 33.24 GB a chip: weights 16.06 GB, cache 17.18 GB, activations 4.235 MB; fits in 85.52 GB; decoding "
      "holds up to 64 sequences of 8 192 tokens, or 16 sequences of 33 119 tokens\n"
      "bound cache 53.3 %, weights 46.6 %, other bytes 0.1 %\n\npart "))
      << decode.out;
  const ProcessResult large = ridge({"model", "gpt_3_175b", "--context", "2048", "--on", "a100_80", "--tp", "1"});
  EXPECT_NE(large.out.find("DOES NOT FIT in 85.90 GB; decoding holds no sequence of 2 048 tokens"), std::string::npos)
      << large.out;
}

TEST_F(CliTest, ModelComparesMachines) {
  const std::vector<std::string> command{"model", "llama_3_70b", "--context", "8192",  "--batch",
                                         "8",     "--on",        "h100,h200", "--json"};
  const auto json = nlohmann::json::parse(ridge(command).out);
  ASSERT_EQ(json["machines"].size(), 2u);
  const auto& h100 = json["machines"][0];
  EXPECT_EQ(h100["layout"]["tp"], 2);
  // Bytes over bandwidth: weights without the embedding and cache, and the network's time
  const double bytes = 2 * (70553706496.0 - 128256.0 * 8192) / 2 + 8 * 8192 * 327680.0 / 2;
  double network = 0;
  for (const auto& op : h100["ops"])
    if (op["name"] == "network") network += double(op["count"]) * double(op["time_lower_s"]);
  EXPECT_NEAR(h100["time_s"]["bound"], bytes / 3.35e12 + network, 0.005 * bytes / 3.35e12);
  EXPECT_TRUE(h100["time_s"]["expected"].is_null());
}

TEST_F(CliTest, ModelChoosesChipsAndBatchForARate) {
  const std::vector<std::string> command{"model",  "llama_3_70b", "--context", "8192",
                                         "--rate", "50",          "--on",      "h100,h200,b200"};
  const ProcessResult found = ridge(command);
  EXPECT_TRUE(
      found.out.starts_with("llama_3_70b: with 50 tokens/s a sequence of 8 192 tokens, a chip of b200 gives the "
                            "most tokens/s: at most 2 259 (8 x b200, 361 sequences), 2.56 times that of h200; times "
                            "of b200 are too low to "
                            "compare, see below\n"))
      << found.out;
  EXPECT_NE(found.out.find("\nengines are slower than these bounds: --serve predicts one with --batch and --tp of the "
                           "answer\n"),
            std::string::npos)
      << found.out;
  EXPECT_NE(found.out.find("\nb200: the time of a launch and the latency of its links are not on record and count as "
                           "0, so its times are too low\n"),
            std::string::npos)
      << found.out;
  const ProcessResult fp8 = ridge({"model", "llama_3_8b", "--dtype", "fp8", "--context", "64", "--on", "a100_80,h200"});
  EXPECT_NE(fp8.out.find("\nmachine 'a100_80' has no matrix peak for e4m3; expected one of "), std::string::npos)
      << fp8.out;
  EXPECT_TRUE(ridge({"model", "llama_3_70b", "--context", "8192", "--rate", "5000", "--on", "h100,h200"})
                  .out.starts_with("llama_3_70b: no machine reaches 5 000 tokens/s a sequence of 8 192 tokens\n"));
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--rate", "5", "--batch", "2"}, 2,
                  "ridge: expected --rate without --batch: it chooses the batch\n"
                  "  hint: remove --batch or --rate\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--rate", "-5"}, 2,
                  "ridge: expected --rate above 0 and below 1e9 tokens/s, found -5\n");
}

TEST_F(CliTest, ModelPredictsServedTimes) {
  const std::vector<std::string> command{"model", "llama_3_70b", "--context", "1024", "--batch", "64",
                                         "--on",  "h200",        "--tp",      "4",    "--serve", "--output-tokens",
                                         "1000"};
  const ProcessResult text = ridge(command);
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("\nserved 22.51 ms (19.18 ms to 28.59 ms) per token, 448.3 ms (336.3 ms to 712.9 ms) to the "
                          "first token, 2 788 tokens/s of output (vllm, 1 000 tokens each)\n"),
            std::string::npos)
      << text.out;
  std::vector<std::string> with_json = command;
  with_json.insert(with_json.end(), {"--json", "--engine", "sglang"});
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  EXPECT_EQ(json["served"]["engine"], "sglang");
  EXPECT_EQ(json["served"]["batch"], 64);
  EXPECT_GT(json["served"]["tpot_s"]["expected"], json["tpot_s"]["bound"]);
  EXPECT_LT(json["served"]["tpot_s"]["low"], json["served"]["tpot_s"]["expected"]);
  EXPECT_GT(json["served"]["constants"]["layer"], 0);
}

// An engine without any cost of its own: the served time per token is the bound without the network.
TEST_F(CliTest, ModelTakesGivenConstantsOfServedTimes) {
  std::string constants = "number,unit,value,origin,meaning\n";
  for (const char* name : {"layer", "expert_layer", "sequence", "queued", "first_token_steps", "start", "vllm_start"})
    constants += fmt::format("{},s,0,given,none\n", name);
  for (const char* name :
       {"prefill", "expert_prefill", "memory", "token_low", "token_high", "first_token_low", "first_token_high"})
    constants += fmt::format("{},share,1,given,none\n", name);
  const std::string path = file("engine.csv", constants);
  const std::vector<std::string> command{"model",   "llama_3_8b",      "--context", "8",         "--on", "mi300x",
                                         "--serve", "--output-tokens", "1",         "--serving", path};
  const ProcessResult text = ridge(command);
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("constants of " + path + ")\n"), std::string::npos) << text.out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  EXPECT_DOUBLE_EQ(json["served"]["tpot_s"]["expected"], json["served"]["tpot_s"]["low"]);
  EXPECT_EQ(json["served"]["constants"]["layer"], 0);
  EXPECT_EQ(json["served"]["constants_file"], path);
  expect_rejected({"model", "llama_3_8b", "--context", "8", "--on", "h100", "--serving", path}, 2,
                  "ridge: expected --serving together with --serve\n");
  expect_rejected({"model", "llama_3_8b", "--context", "8", "--on", "h100", "--serve", "--output-tokens", "1",
                   "--serving", "none.csv"},
                  3, "ridge: cannot read 'none.csv': No such file or directory\n");
}

TEST_F(CliTest, CalibrateFitsServedTimes) {
  const std::string points = file("points.csv",
                                  "config,machine,engine,tp,dtype,cache_dtype,requests,prompt_tokens,output_tokens,"
                                  "first_token_ms,token_ms\n"
                                  "llama_3_8b,h100,vllm,1,bf16,bf16,1,1024,256,60,9\n"
                                  "llama_3_8b,h100,vllm,1,bf16,bf16,1,1024,256,60,3\n");
  const ProcessResult fit = ridge({"calibrate", "--serving", points, "--out", path("engine.csv")});
  EXPECT_EQ(fit.err, "");
  EXPECT_TRUE(fit.out.starts_with(points + ": time per token within 0.3 %, to the first token within 0.0 % (median of "
                                           "the fitted points), from 1 point of 1 configuration\nline 3: "))
      << fit.out;
  EXPECT_NE(fit.out.find("\nline 3: impossible or mislabelled, left out: 3 ms per token are below the bound of "),
            std::string::npos)
      << fit.out;
  EXPECT_TRUE(fit.out.ends_with("written to " + path("engine.csv") + "\n")) << fit.out;
  const ProcessResult served = ridge({"model", "llama_3_8b", "--context", "1024", "--on", "h100", "--serve",
                                      "--output-tokens", "256", "--serving", path("engine.csv")});
  EXPECT_EQ(served.err, "");
  EXPECT_NE(served.out.find("constants of " + path("engine.csv")), std::string::npos) << served.out;
  expect_rejected({"calibrate", "--serving", points, "--on", "h100"}, 2,
                  "ridge: expected --serving without --on\n  hint: --serving can be combined with --out\n");
  expect_rejected({"calibrate", "timings.csv", "--serving", points}, 2,
                  "ridge: expected --serving without FILE, found 'timings.csv'\n"
                  "  hint: timings of kernels and points of an engine are fitted one after the other\n");
  expect_rejected({"calibrate", "timings.csv"}, 2,
                  "ridge: expected --on, found none\n  hint: ridge calibrate --help\n");
}

TEST_F(CliTest, ModelWritesAPage) {
  const std::string page = path("model.html");
  const ProcessResult text = ridge({"model", "llama_3_8b", "--context", "4096", "--on", "h200,b200", "--html", page});
  EXPECT_EQ(text.err, "");
  EXPECT_TRUE(read_file(page)->starts_with("<!doctype html>"));
  const std::vector<std::string> command{"model", "llama_3_8b", "--context", "1", "--html", page};
  const auto expect_page_rejected = [&](const std::vector<std::string>& options, const char* message) {
    std::vector<std::string> more = command;
    more.insert(more.end(), options.begin(), options.end());
    expect_rejected(more, 2, message);
  };
  const char* const hint =
      "  hint: --html can be combined with --dtype --cache-dtype --context --batch --on --phase --tp --plan --library "
      "--serve --output-tokens --engine --serving --images --image-size --json --csv --md\n";
  const ProcessResult images = ridge({"model", "qwen2_vl_7b", "--context", "4096", "--on", "h200", "--images", "3",
                                      "--image-size", "448", "--html", page});
  EXPECT_EQ(images.err, "");
  EXPECT_NE(read_file(page)->find("id=\"imagesslide\""), std::string::npos) << "a slider for images";
  expect_page_rejected({}, "ridge: expected --html together with --on\n");
  expect_page_rejected({"--on", "h200"},
                       "ridge: expected --context from 2 to 16777216 with --html, found 1\n"
                       "  hint: leave out --html for other contexts\n");
  expect_page_rejected({"--on", "h200", "--pp", "2"},
                       (std::string("ridge: expected --html without --pp\n") + hint).c_str());
  expect_page_rejected({"--on", "h200", "--rate", "5"},
                       (std::string("ridge: expected --html without --rate\n") + hint).c_str());
}

TEST_F(CliTest, ModelComparesServedTimesAndDraftTokens) {
  const std::vector<std::string> command{"model", "llama_3_70b", "--context", "1024", "--batch",
                                         "64",    "--on",        "h100,h200", "--tp", "4"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    return ridge(all).out;
  };
  const std::string served = with({"--serve", "--output-tokens", "1024"});
  EXPECT_TRUE(
      served.starts_with("llama_3_70b: with 64 sequences of 1 024 tokens, a chip of h200 gives the most "
                         "tokens/s: 700 (4 x h200, served), 1.17 times that of h100\n"))
      << served;
  EXPECT_NE(served.find("\nh200         4         64                 44.6              700"), std::string::npos)
      << served;
  const auto json = nlohmann::json::parse(with({"--serve", "--output-tokens", "1024", "--json"}));
  EXPECT_NEAR(json["machines"][1]["served"]["output_tokens_per_s"].get<double>() / 4, 700, 0.5);
  const std::string drafted = with({"--speculate", "4", "--acceptance", "0.7"});
  const auto drafts = nlohmann::json::parse(with({"--speculate", "4", "--acceptance", "0.7", "--json"}));
  const double rate = 64 / drafts["machines"][1]["speculation"]["token_s"].get<double>() / 4;
  const std::string shown =
      fmt::format("{} {:03}", static_cast<int>(rate + 0.5) / 1000, static_cast<int>(rate + 0.5) % 1000);
  EXPECT_NE(drafted.find("a chip of h200 gives the most tokens/s: at most " + shown + " (4 x h200)"), std::string::npos)
      << drafted << shown;
}

TEST_F(CliTest, ModelSaysWhatDecodingHolds) {
  const auto memory = [&](const std::string& machine, const std::string& context) {
    const std::string out =
        ridge({"model", "llama_3_70b", "--context", context, "--batch", "16", "--tp", "1", "--on", machine}).out;
    const std::size_t start = out.find("; decoding holds");
    return out.substr(start, out.find('\n', start) - start);
  };
  EXPECT_EQ(memory("h100", "131072"),
            "; decoding holds no sequence of 131 072 tokens, and not 16 sequences of 1 token");
  EXPECT_EQ(memory("h200", "131072"),
            "; decoding holds no sequence of 131 072 tokens, but 16 sequences of 1 839 tokens");
}

// 8 heads: 8 chips are the most that divide the model, and it does not fit there.
TEST_F(CliTest, ModelTakesTheMostChipsIfNoneHoldIt) {
  const ProcessResult text = ridge({"model", "gemma_2_2b", "--context", "149331", "--batch", "560", "--on", "mi300x"});
  EXPECT_TRUE(text.out.starts_with("gemma_2_2b on 8 x mi300x, whose memory is too small: ")) << text.out;
  EXPECT_NE(text.out.find("DOES NOT FIT in 206.1 GB"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\ntoo large for these chips; --chips 64 --best also divides layers"), std::string::npos)
      << text.out;
}

TEST_F(CliTest, ModelPrintsProgramsThatOtherVerbsRead) {
  const std::string program = ridge({"model", "qwen3_0_6b", "--context", "128", "--phase", "prefill", "--print"}).out;
  const ProcessResult explained = ridge({"explain", file("model.ridge", program), "--on", "h200"});
  EXPECT_EQ(explained.err, "");
  EXPECT_NE(explained.out.find("596.0 M parameters"), std::string::npos) << explained.out;
}

TEST_F(CliTest, ModelReportsInvalidArguments) {
  expect_rejected({"model"}, 2, "ridge: expected a CONFIG, found none\n  hint: ridge model llama_3_8b\n");
  expect_rejected({"model", "llama_3_8b", "--batch", "2"}, 2, "ridge: expected --batch together with --context\n");
  expect_rejected({"model", "llama_3_8b", "--on", "h100"}, 2, "ridge: expected --on together with --context\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--tp", "2"}, 2,
                  "ridge: expected --tp together with --on\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--serve"}, 2,
                  "ridge: expected --serve together with --on\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--output-tokens", "5"}, 2,
                  "ridge: expected --output-tokens together with --serve\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--serve"}, 2,
                  "ridge: expected --output-tokens together with --serve, found none\n"
                  "  hint: --serve --output-tokens 1024\n");
  const std::vector<std::string> serve{"model", "llama_3_8b", "--context", "9", "--serve", "--output-tokens", "9"};
  const auto expect_serving_rejected = [&](std::vector<std::string> more, int code, const std::string& message) {
    more.insert(more.begin(), serve.begin(), serve.end());
    expect_rejected(more, code, message);
  };
  expect_serving_rejected(
      {"--on", "h100", "--engine", "tgi"}, 2,
      "ridge: --engine: expected vllm, sglang or trtllm, found 'tgi'\n  hint: ridge model --help\n");
  expect_serving_rejected({"--on", "h100", "--phase", "prefill"}, 2,
                          "ridge: expected --serve without --phase prefill\n");
  expect_rejected({"model", "gpt_3_175b", "--context", "2000", "--on", "h100", "--serve", "--output-tokens", "49"}, 3,
                  "ridge: gpt_3_175b: expected --context and --output-tokens of at most 2048 together, the positions "
                  "that the model has, found 2049\n");
  expect_serving_rejected({"--on", "b200"}, 3,
                          "ridge: no engine was measured on b200; served times are known on h100 and h200\n"
                          "  hint: leave out --serve for the bound, or give constants: --serving FILE\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--tp", "3"}, 3,
                  "ridge: llama_3_8b: expected --tp that divides the 32 heads, found 3\n");
  expect_rejected({"model", "llama_3_8b", "--context", "9", "--on", "h100", "--phase", "tune"}, 2,
                  "ridge: --phase: expected prefill, decode or train, found 'tune'\n  hint: ridge model --help\n");
  expect_rejected({"model", "gpt_3_175b", "--context", "4096", "--on", "h100"}, 3,
                  "ridge: gpt_3_175b: expected --context of at most 2048, the positions that the model has, found "
                  "4096\n");
  expect_rejected(
      {"model", "llama_3_8b", "--context", "9", "--print", "--on", "h100"}, 2,
      "ridge: expected --print without --on\n"
      "  hint: --print can be combined with --dtype --cache-dtype --context --batch --phase --tp --ep --dp --layer\n");
  expect_rejected({"model", "llama_3_8b", "--context", "1e30"}, 2,
                  "ridge: expected a whole number for --context, found '1e30'\n  hint: ridge model --help\n");
  expect_rejected({"model", "llama_3_8b", "--context", "0"}, 2,
                  "ridge: expected --context from 1 to 4294967296 tokens, found 0\n");
  expect_rejected({"model", "llama_3_7b"}, 4,
                  "ridge: unknown model 'llama_3_7b'; expected a name of models/, a config.json or its folder\n"
                  "  hint: did you mean llama_2_7b?\n");
  expect_rejected({"model", path("none.json")}, 3,
                  "ridge: cannot read 'FOLDER/none.json': No such file or directory\n");
  expect_rejected({"model", "meta-llama/Llama-3-8B"}, 3,
                  "ridge: cannot read 'meta-llama/Llama-3-8B': No such file or directory\n"
                  "  hint: did you mean llama_3_8b?\n");
  expect_rejected({"model", "Qwen/Qwen3-8B-Base"}, 3,
                  "ridge: cannot read 'Qwen/Qwen3-8B-Base': No such file or directory\n"
                  "  hint: did you mean qwen3_8b?\n");
  expect_rejected({"model", file("wrong.json", R"({"model_type": "lama", "hidden_size": 8})")}, 3,
                  "FOLDER/wrong.json: model_type: expected one of llama, llama4_text, mistral, mixtral, phi3, "
                  "qwen2, qwen2_vl, qwen2_vl_text, qwen3, qwen3_moe, qwen3_vl_text, qwen3_vl_moe_text, qwen3_next, "
                  "qwen3_5_text, qwen3_5_moe_text, gemma2, gemma3_text, gemma4_text, gpt_oss, gpt2, whisper, glm4_moe, "
                  "deepseek_v3, "
                  "deepseek_v32, kimi_k2, glm_moe_dsa, nemotron_h, mamba2, falcon_mamba, found 'lama'\n"
                  "  hint: did you mean 'llama'?\n");
}

TEST_F(CliTest, ModelPredictsLinearAttention) {
  const ProcessResult counted = ridge({"model", "qwen3_next_80b_a3b", "--context", "8192", "--batch", "8"});
  ASSERT_EQ(counted.code, 0) << counted.err;
  EXPECT_TRUE(counted.out.starts_with(
      "qwen3_next_80b_a3b: 79.67 G parameters, 3.875 G active per token; 159.3 GB of weights (bf16); 24.58 kB of cache "
      "per token (bf16); 77.27 MB of state per sequence\n8 sequences of 8 192 tokens: 2.229 GB of cache and state\n"))
      << counted.out;
  const ProcessResult times =
      ridge({"model", "qwen3_next_80b_a3b", "--context", "8192", "--batch", "8", "--on", "h200", "--json"});
  ASSERT_EQ(times.code, 0) << times.err;
  const auto answer = nlohmann::json::parse(times.out);
  EXPECT_GT(answer["ttft_s"]["bound"].get<double>(), 0.01);
  EXPECT_GT(answer["tpot_s"]["bound"].get<double>(), 0.003);
  const ProcessResult printed =
      ridge({"model", "qwen3_next_80b_a3b", "--context", "128", "--phase", "prefill", "--print", "--layer", "0"});
  EXPECT_TRUE(
      printed.out.starts_with("# Not in this program: the programs of linear attention have the work of a "
                              "prompt in chunks of 64 tokens, not its values"))
      << printed.out;
}

TEST_F(CliTest, ModelPredictsImages) {
  const ProcessResult text =
      ridge({"model", "gemma_3_27b", "--context", "2048", "--on", "h200", "--images", "2", "--plan"});
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("(2 048 tokens of one sequence, with 2 images)"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\nimages on one chip, 2 images of 896 x 896 pixels take "), std::string::npos) << text.out;
  const std::string program = ridge({"model", "gemma_3_27b", "--context", "2048", "--images", "1", "--print"}).out;
  const ProcessResult explained = ridge({"explain", file("images.ridge", program), "--on", "h200"});
  EXPECT_EQ(explained.err, "");
  EXPECT_NE(explained.out.find("423.1 M parameters"), std::string::npos) << explained.out;
  expect_rejected({"model", "gemma_3_27b", "--context", "2048", "--on", "h200", "--image-size", "896"}, 2,
                  "ridge: expected --image-size together with --images\n");
  expect_rejected({"model", "gemma_3_27b", "--context", "2048", "--on", "h200", "--images", "1", "--chips", "4"}, 2,
                  "ridge: expected --images without --phase train, --rate, --serve, --speculate and --chips\n"
                  "  hint: the time of images is added to the time to the first token of the given layout\n");
}

}  // namespace
}  // namespace ridge
