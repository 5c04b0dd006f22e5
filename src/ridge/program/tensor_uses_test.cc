#include "ridge/program/tensor_uses.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(TensorUses, NameTheWriterAndTheReadersOfEachTensor) {
  const auto program = parse(
      "x: bf16[B, D]  w: bf16[D, F]\n"
      "u[B, F] = x * w\n"
      "v[B, F] = u * u\n"
      "y: bf16[B, F] = v + u");
  ASSERT_TRUE(program) << program.error().to_string();
  const TensorUses uses(*program);
  const auto tensor = [&](const std::string& name) {
    int t = 0;
    while (program->tensors[t].name != name) ++t;
    return t;
  };
  EXPECT_EQ(uses.writer(tensor("x")), -1);
  EXPECT_EQ(uses.writer(tensor("u")), 0);
  EXPECT_EQ(uses.writer(tensor("y")), 2);
  EXPECT_EQ(uses.readers(tensor("w")), (std::vector<int>{0}));
  EXPECT_EQ(uses.readers(tensor("u")), (std::vector<int>{1, 2}));
  EXPECT_EQ(uses.readers(tensor("y")), (std::vector<int>{}));
  EXPECT_EQ(distinct_operands(program->statements[1]), (std::vector<int>{tensor("u")}));
}

}  // namespace
}  // namespace ridge
