// Compares the programs of vision encoders with hand sums of their work and with literal loops over patches.
#include "ridge/model/vision_program.h"

#include <gtest/gtest.h>

#include <map>

#include "ridge/model/audio_program.h"
#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/literal_evaluator.h"

namespace ridge::model {
namespace {

Program load_text(const std::string& text) {
  auto loaded = load_program(text, DType::bf16);
  EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message + "\n" + text);
  return loaded ? std::move(loaded->program) : Program{};
}

// Returns the FLOPs of products and of convolutions of all parts.
double sum_product_flops(const ModelPrograms& programs) {
  double sum = 0;
  for (const PartProgram& part : programs.parts) {
    const Program program = load_text(part.text);
    const auto explanation = explain(program, *find_machine("h100"), {}, {}, Thresholds::skipped);
    EXPECT_TRUE(explanation) << (explanation ? "" : explanation.error().message);
    if (!explanation) return 0;
    for (std::size_t i = 0; i < program.statements.size(); ++i)
      if (std::holds_alternative<Contraction>(program.statements[i].op))
        sum += static_cast<double>(part.count) * static_cast<double>(*explanation->ops[i].flops);
  }
  return sum;
}

// Products of one image of N vectors of width w and P patches: N (8 w^2 + 4 w f) + 4 N^2 w in each layer.
double sum_layers(double layers, double vectors, double w, double f) {
  return layers * (vectors * (8 * w * w + 4 * w * f) + 4 * vectors * vectors * w);
}

TEST(VisionProgram, HasTheProductsOfPublishedEncoders) {
  // SigLIP of Gemma 3: 64 x 64 patches of 14 x 14 pixels in three colours; 256 means pass a matrix.
  const auto gemma = write_vision_programs(*find_config("gemma_3_27b"), {.images = 3});
  ASSERT_TRUE(gemma) << gemma.error().message;
  EXPECT_EQ(sum_product_flops(*gemma),
            3 * (2.0 * 4096 * 588 * 1152 + sum_layers(27, 4096, 1152, 4304) + 2.0 * 256 * 1152 * 5376));
  // Llama 4: 24 x 24 patches and one more vector; 144 tokens of four patches pass three matrices.
  const auto llama = write_vision_programs(*find_config("llama_4_scout"), {});
  ASSERT_TRUE(llama) << llama.error().message;
  EXPECT_EQ(sum_product_flops(*llama), 2.0 * 576 * 588 * 1408 + sum_layers(34, 577, 1408, 5632) +
                                           2.0 * 144 * (5632.0 * 4096 + 4096 * 4096 + 4096 * 5120));
  // Qwen3-VL: patches of two frames; tokens of four patches pass two matrices, after three of the layers, too.
  const auto qwen = write_vision_programs(*find_config("qwen3_vl_8b"), {.image_size = 512});
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_EQ(sum_product_flops(*qwen), 2.0 * 1024 * 1536 * 1152 + sum_layers(27, 1024, 1152, 4304) +
                                          4 * 2.0 * 256 * (4608.0 * 4608 + 4608 * 4096));
  EXPECT_EQ(qwen->parts[2].name, "vision projector of a layer");
  EXPECT_EQ(qwen->parts[2].count, 3);
  // Qwen2-VL: patches of two frames of 14 x 14 pixels, and a projector after the last layer alone.
  const auto qwen2 = write_vision_programs(*find_config("qwen2_vl_7b"), {.image_size = 448});
  ASSERT_TRUE(qwen2) << qwen2.error().message;
  EXPECT_EQ(sum_product_flops(*qwen2),
            2.0 * 1024 * 1176 * 1280 + sum_layers(32, 1024, 1280, 5120) + 2.0 * 256 * (5120.0 * 5120 + 5120 * 3584));
  // Gemma 4: three matrices in each feed-forward part, one half more than two; means of 3 x 3 patches pass a matrix.
  const auto gemma4 = write_vision_programs(*find_config("gemma_4_31b"), {.image_size = 768});
  ASSERT_TRUE(gemma4) << gemma4.error().message;
  EXPECT_EQ(sum_product_flops(*gemma4),
            2.0 * 2304 * 768 * 1152 + sum_layers(27, 2304, 1152, 1.5 * 4304) + 2.0 * 256 * 1152 * 5376);
}

TEST(AudioProgram, HasTheProductsOfWhisper) {
  // Frames of 128 numbers in windows of three pass two convolutions; each decoder layer has keys and values of 1 500
  // vectors.
  const auto whisper = write_audio_programs(*find_config("whisper_large_v3"), {}, 2);
  ASSERT_TRUE(whisper) << whisper.error().message;
  EXPECT_EQ(sum_product_flops(*whisper), 2 * (2.0 * 3000 * 3 * 128 * 1280 + 2.0 * 1500 * 3 * 1280 * 1280 +
                                              sum_layers(32, 1500, 1280, 5120) + 32 * 2 * 2.0 * 1500 * 1280 * 1280));
}

TEST(VisionProgram, ReadsThePatchesOfATokenTogether) {
  ModelConfig config = *find_config("gemma_3_27b");
  config.vision = VisionConfig{.layers = 1,
                               .width = 2,
                               .heads = 1,
                               .feed_forward = 3,
                               .patch = 2,
                               .patch_values = 12,
                               .merged = 2,
                               .image_size = 12,
                               .text_width = 3,
                               .activation = "gelu"};
  const auto programs = write_vision_programs(config, {});
  ASSERT_TRUE(programs) << programs.error().message;
  const Program projector = load_text(programs->parts.back().text);
  // Norms change the scale of rows only: a patch's second element marks its square of 2 x 2 patches.
  std::vector<double> x;
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 6; ++column) {
      x.push_back(1);
      x.push_back((row / 2) * 3 + column / 2 == 4 ? 3 : -1);
    }
  const auto values = ridge::testing::LiteralEvaluator(projector).run({{"x", x},
                                                                       {"norm3", {1, 1}},
                                                                       {"shift3", {0, 0}},
                                                                       {"norm4", {1, 1}},
                                                                       {"wout", {0, 0, 0, 1, 1, 1}},
                                                                       {"anyMC", {0, 0}}});
  for (std::size_t token = 0; token < 9; ++token) EXPECT_EQ(values.at("images")[3 * token] > 0, token == 4) << token;
}

TEST(VisionProgram, IsOneProgram) {
  for (const char* name : {"gemma_3_27b", "llama_4_scout", "qwen3_vl_8b", "qwen2_vl_7b", "gemma_4_31b"}) {
    ModelConfig config = *find_config(name);
    config.vision->layers = 4;
    const std::int64_t square = config.vision->patch * config.vision->merged;
    const VisionOptions options{.image_size = config.vision->image_size > 0 ? 0 : 2 * square};
    const auto whole = write_vision_program(config, options);
    ASSERT_TRUE(whole) << whole.error().message;
    const Program program = load_text(*whole);
    std::size_t statements = 0;
    const ModelPrograms programs = *write_vision_programs(config, options);
    for (const PartProgram& part : programs.parts)
      statements += static_cast<std::size_t>(part.count) * load_text(part.text).statements.size();
    EXPECT_EQ(program.statements.size(), statements) << name;
  }
}

TEST(VisionProgram, RefusesWhatItHasNoProgramFor) {
  const auto error_of = [](const char* name, const VisionOptions& options) {
    return write_vision_programs(*find_config(name), options).error().to_string();
  };
  EXPECT_EQ(error_of("llama_3_8b", {}),
            "llama_3_8b: expected a vision_config for --images, found none that has programs\n"
            "  hint: those of Gemma 3 and 4, Llama 4, Qwen2-VL, Qwen3-VL and Qwen3.5 have\n");
  EXPECT_EQ(error_of("qwen3_vl_8b", {}),
            "qwen3_vl_8b: expected --image-size together with --images, found none\n"
            "  hint: its images have any size\n");
  EXPECT_EQ(error_of("qwen3_vl_8b", {.image_size = 500}),
            "qwen3_vl_8b: expected --image-size as a multiple of 32, the pixels of a token, up to 65536, found 500\n");
  EXPECT_EQ(error_of("gemma_3_27b", {.image_size = 448}),
            "gemma_3_27b: expected --image-size 896, for which the encoder has positions, found 448\n");
  EXPECT_EQ(error_of("gemma_3_27b", {.images = 0}), "expected --images from 1 to 65536, found 0\n");
}

}  // namespace
}  // namespace ridge::model
