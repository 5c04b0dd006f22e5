// Tests error messages of `ridge shard`.
#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

const std::vector<std::string> product{"shard", "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "--on", "h100"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(CliTest, ShardReportsInvalidArguments) {
  expect_rejected(with(product, {"--chips", "8"}), 2,
                  "ridge: dimension B has no value; comparing shardings needs all sizes\n  hint: -d B=4096\n");
  expect_rejected(with(product, {"--chips", "1", "B=8", "D=8", "F=8"}), 2,
                  "ridge: expected 2 to 4096 chips, found 1\n  hint: --chips 8\n");
  expect_rejected(with(product, {"--bytes", "8"}), 2, "ridge: expected --bytes together with --collective\n");
  expect_rejected(
      {"shard", "--collective", "all-gather", "--bytes", "8", "--chips", "8", "--ragged", "8", "--on", "h100"}, 2,
      "ridge: expected TO/OF destinations after --ragged, found '8'\n  hint: --ragged 8/64\n");
  expect_rejected({"shard", "--collective", "gather", "--chips", "8", "--on", "h100"}, 2,
                  "ridge: expected 1 to 2^60 bytes of a collective, found 0\n  hint: --bytes 1e9\n");
}

}  // namespace
}  // namespace ridge
