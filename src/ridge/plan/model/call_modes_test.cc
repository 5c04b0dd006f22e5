// The work of a token that launch modes divide into calls.
#include "ridge/plan/model/call_modes.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(CallModes, CountsATokenOfLlama) {
  // Llama 3 8B: 4096 x (2 x 4096 + 2 x 1024) + 3 x 4096 x 14336 + 2 x 4096 = 218 112 000 parameters in a layer, and
  // 2 x 8 x 128 elements of cache per token; 4 x 4096 FLOPs per token of the context.
  const LayeredStep step = *count_layered_step(*model::find_config("llama_3_8b"), 4096);
  EXPECT_EQ(step.layers, 32);
  EXPECT_EQ(step.layer_bytes, 2 * 218112000.0 + 4096.0 * 4096);
  EXPECT_EQ(step.layer_flops, 2 * 218112000.0 + 4 * 4096.0 * 4096);
  EXPECT_EQ(step.other_bytes, 2 * 2 * 128256.0 * 4096);
  EXPECT_EQ(step.other_flops, 2 * 128256.0 * 4096);
  EXPECT_EQ(step.intermediate_bytes, 8192);
}

TEST(CallModes, RefusesLayersThatDiffer) {
  for (const char* name : {"gemma_2_2b", "mixtral_8x7b", "deepseek_v3", "qwen3_5_27b_text", "falcon_mamba_7b"})
    EXPECT_EQ(count_layered_step(*model::find_config(name), 1).error().to_string(),
              std::string(name) +
                  ": expected equal layers with full attention and one dense network, found others\n"
                  "  hint: `ridge model` predicts models with other layers\n");
}

}  // namespace
}  // namespace ridge
