// Tests `ridge model` with training, speculative decoding and costs.
#include <nlohmann/json.hpp>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

TEST_F(CliTest, ModelPredictsATrainingStep) {
  const ProcessResult step = ridge({"model", "llama_3_8b", "--phase", "train", "--context", "4096", "--batch", "64",
                                    "--on", "h100", "--dp", "64", "--zero", "3"});
  EXPECT_EQ(step.err, "");
  EXPECT_TRUE(step.out.starts_with(
      "llama_3_8b on 64 x h100: a training step of 64 sequences of 4 096 tokens takes 203.4 ms at least: 1 289 020 "
      "tokens/s, 20 141 a chip\n"
      "utilisation 98.2 % of the peak at most: 197.6 TFLOP of model FLOPs in 200.1 TFLOP of work a chip\n"
      "time forward 32.8 %, backward 66.7 %, optimizer 0.5 %; data ranks exchange for 124.6 ms during the passes\n"
      "memory 23.55 GB a chip: weights 250.9 MB, gradients 250.9 MB, optimizer 1.506 GB, activations 19.37 GB, working "
      "2.175 GB; fits in 85.52 GB\n\npass "))
      << step.out;
  const ProcessResult several = ridge({"model", "llama_3_8b", "--phase", "train", "--context", "512", "--batch", "8",
                                       "--on", "h100,h200,sn10", "--dp", "2"});
  EXPECT_TRUE(
      several.out.starts_with("llama_3_8b: with a training step of 8 sequences of 512 tokens, a chip of h200 "
                              "gives the most tokens/s: at most 14 499, 1.29 times that of h100; --tp 2 is chosen "
                              "on h100\n"))
      << several.out;
  EXPECT_NE(several.out.find("\nmachine 'sn10' has no link on record\n"), std::string::npos) << several.out;
}

TEST_F(CliTest, ModelSchedulesStagesOfTraining) {
  const std::vector<std::string> command{"model",   "llama_3_8b", "--phase", "train", "--context", "4096",
                                         "--batch", "64",         "--on",    "h100",  "--tp",      "2",
                                         "--pp",    "4",          "--dp",    "2"};
  const ProcessResult step = ridge(command);
  EXPECT_EQ(step.err, "");
  EXPECT_TRUE(step.out.starts_with(
      "llama_3_8b on 16 x h100: a training step of 64 sequences of 4 096 tokens takes 1.228 s at least: 213 438 "
      "tokens/s, 13 340 a chip\n"
      "utilisation 65.1 % of the peak at most: 790.5 TFLOP of model FLOPs in 800.3 TFLOP of work a chip\n"
      "time forward 27.4 %, backward 49.9 %, optimizer 0.7 %, idle stages 22.0 %; data ranks exchange for 40.15 ms "
      "during the passes\n"
      "memory 30.05 GB a chip: weights 2.270 GB, gradients 2.270 GB, optimizer 13.62 GB, activations 11.27 GB, working "
      "612.4 MB; fits in 85.52 GB\n"
      "stages 4 of 8 layers; 32 micro-batches of 1 sequence a data rank; idle 22.0 % of the time on average, 9.1 % in "
      "the slowest stage, which is number 4; the first keeps the activations of 4 micro-batches\n"))
      << step.out;
  EXPECT_NE(step.out.find("\nthe table has the average of the stages' chips\n"), std::string::npos) << step.out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  EXPECT_EQ(json["layout"], (nlohmann::json{{"tp", 2}, {"pp", 4}, {"ep", 1}, {"dp", 2}}));
  ASSERT_EQ(json["training"]["stages"].size(), 4u);
  double idle_s = 0;
  for (const auto& stage : json["training"]["stages"]) idle_s += stage["idle_s"].get<double>() / 4;
  EXPECT_DOUBLE_EQ(json["training"]["idle_s"].get<double>(), idle_s);
}

TEST_F(CliTest, ModelRanksLayoutsOfTraining) {
  const ProcessResult best = ridge({"model", "llama_3_8b", "--phase", "train", "--context", "4096", "--batch", "64",
                                    "--on", "h100,h200", "--chips", "16", "--best", "--recompute", "full"});
  EXPECT_EQ(best.err, "");
  EXPECT_TRUE(best.out.starts_with(
      "llama_3_8b on 16 x h200: --dp 16 is the best of 30 layouts: a training step of 64 sequences of 4 096 tokens "
      "takes "
      "1.104 s at least, 14 841 tokens/s a chip\n"
      "machine  chips  tp  pp  dp  accumulate  a step, at least  tokens/s a chip  utilisation    idle  data ranks not "
      "hidden  memory a chip\n"
      "h200        16   1   1  16           1           1.104 s           14 841       72.4 %   0.0 %                  "
      "0.0 %       144.3 GB\n"))
      << best.out;
  EXPECT_NE(best.out.find("\nthe best 10 of "), std::string::npos) << best.out;
  const ProcessResult range = ridge({"model", "llama_3_8b", "--phase", "train", "--context", "4096", "--batch", "64",
                                     "--on", "h100", "--chips", "1..8"});
  EXPECT_TRUE(
      range.out.starts_with("llama_3_8b on 2 x h100: --pp 2 --accumulate 64 gives the most tokens/s a chip: a training "
                            "step of 64 sequences of "
                            "4 096 tokens takes 7.009 s at least, 18 700 tokens/s a chip\n"))
      << range.out;
  EXPECT_NE(range.out.find("\nh100: 4 layouts do not fit in 85.52 GB; of these, --tp 1 needs the least, 149.0 GB\n"),
            std::string::npos)
      << range.out;
}

TEST_F(CliTest, ModelPredictsATrainingRun) {
  const std::vector<std::string> command{"model",    "llama_3_70b", "--phase",       "train", "--context",    "8192",
                                         "--batch",  "2048",        "--on",          "h100",  "--tp",         "8",
                                         "--dp",     "64",          "--zero",        "1",     "--accumulate", "32",
                                         "--tokens", "15T",         "--utilisation", "0.4",   "--price",      "2.5"};
  const ProcessResult run = ridge(command);
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(run.out.starts_with(
      "llama_3_70b on 512 x h100, whose memory is too small: training with 15.00 T tokens takes 385 days at a "
      "utilisation of 40.0 %: 4 729 576 chip hours; cost 11 823 940; energy 3.311 GWh at most (chips at full power)\n"
      "run 6.738e24 FLOP with attention over 8 192 tokens; 6 N D = 6.350e24 FLOP for 70.55 G active parameters, 213 "
      "tokens per parameter\n"
      "loss 1.857 (Hoffmann et al. 2022), 1.930 (Besiroglu et al. 2024) nats per token, if the data is like "
      "Chinchilla's\n"
      "step a training step of 2 048 sequences of 8 192 tokens takes "))
      << run.out;
  std::vector<std::string> with_json = command;
  with_json.emplace_back("--json");
  const auto json = nlohmann::json::parse(ridge(with_json).out);
  EXPECT_EQ(json["phase"], "train");
  EXPECT_EQ(json["training"]["run"]["tokens"], 15e12);
  EXPECT_NEAR(json["training"]["run"]["flops_6nd"], 6 * 70553706496.0 * 15e12, 1e15);
  const ProcessResult experts =
      ridge({"model", "mixtral_8x7b", "--phase", "train", "--context", "512", "--on", "h100", "--tokens", "1e12"});
  EXPECT_NE(experts.out.find("\nloss not predicted: the scaling laws are for dense models\n"), std::string::npos)
      << experts.out;
}

TEST_F(CliTest, ModelPrintsForwardAndBackwardPass) {
  const std::string program =
      ridge({"model", "qwen3_0_6b", "--context", "128", "--phase", "train", "--print", "--layer", "0"}).out;
  EXPECT_NE(program.find("\n# Backward pass\ndata dz: bf16[B, S, D]\n"), std::string::npos) << program;
  const ProcessResult explained = ridge({"explain", file("layer.ridge", program), "--on", "h200"});
  EXPECT_EQ(explained.err, "");
  EXPECT_NE(explained.out.find("15.73 M parameters"), std::string::npos) << explained.out;
  const std::string model = ridge({"model", "qwen3_0_6b", "--context", "128", "--phase", "train", "--print"}).out;
  EXPECT_NE(model.find("\ndlogits[B, S, V] = softmax(logits over V) - (index(V) == labels)\n"), std::string::npos);
}

TEST_F(CliTest, ModelPredictsSpeculativeDecoding) {
  const ProcessResult out =
      ridge({"model", "llama_3_70b", "--context", "8192", "--batch", "16", "--on", "h200", "--speculate", "4",
             "--acceptance", "0.7", "--draft", "llama_3_2_1b", "--price", "3.5"});
  EXPECT_EQ(out.err, "");
  EXPECT_TRUE(out.out.starts_with(
      "llama_3_70b on 2 x h200: with 4 draft tokens, a token of each of 16 sequences takes 9.246 ms at least, 2.21 "
      "times "
      "as fast as without: 1 731 tokens/s\n"
      "speculation a step takes 21.77 ms to verify 5 tokens and yields 2.77 on average (70.0 % accepted); 3.868 ms for "
      "the "
      "draft tokens of llama_3_2_1b; the fastest is 5 draft tokens: 9.163 ms per token\n"
      "without speculation a token of each of 16 sequences takes 20.40 ms at least: 784 tokens/s, 49.0 a sequence\n"
      "first token after 688.7 ms at least (8 192 tokens of one sequence)\n"
      // 3.5 / 3600 s * 2 chips * 9.246 ms / 16 tokens; 700 W * 2 * 9.246 ms / 16
      "cost 1.12 per million output tokens at least, decoding alone; 809.0 mJ per token with all chips at full "
      "power\n"))
      << out.out;
}

TEST_F(CliTest, ModelSpeculatesOnStages) {
  const ProcessResult out =
      ridge({"model", "llama_3_70b", "--context", "8192", "--batch", "16", "--on", "h200", "--tp", "2", "--pp", "2",
             "--speculate", "4", "--acceptance", "0.7", "--draft", "llama_3_2_1b"});
  EXPECT_EQ(out.err, "");
  EXPECT_TRUE(
      out.out.starts_with("llama_3_70b on 4 x h200: with 4 draft tokens, a token of each of 16 sequences takes 7.961 "
                          "ms at least, 2.29 times "
                          "as fast as without: 2 010 tokens/s\n"
                          "speculation a step takes 18.93 ms to verify 5 tokens"))
      << out.out;
}

TEST_F(CliTest, ModelReportsInvalidTraining) {
  const auto expect_train_rejected = [&](std::vector<std::string> more, int code, const std::string& message) {
    more.insert(more.begin(), {"model", "llama_3_8b", "--context", "64", "--on", "h100", "--phase", "train"});
    expect_rejected(more, code, message);
  };
  expect_train_rejected({"--accumulate", "0"}, 2, "ridge: expected --accumulate of at least 1, found 0\n");
  expect_train_rejected({"--tokens", "15X"}, 2,
                        "ridge: expected --tokens as a number, with M, B or T for 1e6, 1e9 or 1e12; found '15X'\n"
                        "  hint: --tokens 15T\n");
  expect_train_rejected({"--tokens", "nan"}, 2,
                        "ridge: expected --tokens as a number, with M, B or T for 1e6, 1e9 or 1e12; found 'nan'\n"
                        "  hint: --tokens 15T\n");
  expect_train_rejected({"--utilisation", "0.4"}, 2, "ridge: expected --utilisation together with --tokens\n");
  expect_train_rejected({"--zero", "4"}, 2,
                        "ridge: --zero: expected a whole number from 0 to 3, found '4'\n"
                        "  hint: ridge model --help\n");
  expect_train_rejected({"--price", "2"}, 2, "ridge: expected --price together with --tokens\n");
  expect_train_rejected({"--tokens", "1T", "--price", "nan"}, 2,
                        "ridge: expected --price from 0 to 1e+09, found nan\n");
  expect_train_rejected({"--rate", "9"}, 2,
                        "ridge: expected --phase train without --rate\n"
                        "  hint: --phase train can be combined with --dtype --context --batch --on --phase --tp --pp "
                        "--ep --dp --plan --library --chips --best --recompute --zero --accumulate --tokens "
                        "--utilisation --price --print --layer --json --csv --md\n");
  expect_train_rejected(
      {"--chips", "8", "--tp", "2"}, 2,
      "ridge: expected --chips with --phase train without --tp\n"
      "  hint: --chips with --phase train can be combined with --dtype --context --batch --on --phase "
      "--chips --best --recompute --zero --accumulate --json --csv --md\n");
  expect_train_rejected({"--pp", "33"}, 3,
                        "ridge: llama_3_8b: expected --pp of at most 32, the layers of the model, found 33\n");
  expect_train_rejected({"--chips", "37"}, 3,
                        "ridge: llama_3_8b: expected --chips that divide the model and 1 sequence, found 37\n"
                        "  hint: a power of two up to --batch times the heads\n");
  const std::vector<std::string> decode{"model", "llama_3_8b", "--context", "64", "--on", "h100"};
  const auto expect_decode_rejected = [&](std::vector<std::string> more, const std::string& message) {
    more.insert(more.begin(), decode.begin(), decode.end());
    expect_rejected(more, 2, message);
  };
  expect_decode_rejected({"--tokens", "15T"}, "ridge: expected --tokens together with --phase train\n");
  expect_decode_rejected({"--draft", "llama_3_2_1b"}, "ridge: expected --draft together with --speculate\n");
  expect_decode_rejected({"--speculate", "4"},
                         "ridge: expected --acceptance together with --speculate, found none\n"
                         "  hint: the share of draft tokens that are accepted: --acceptance 0.7\n");
  expect_decode_rejected({"--speculate", "4", "--acceptance", "0.5", "--phase", "prefill"},
                         "ridge: expected --speculate without --phase prefill\n");
  expect_decode_rejected({"--price", "1", "--phase", "prefill"}, "ridge: expected --price without --phase prefill\n");
}

}  // namespace
}  // namespace ridge
