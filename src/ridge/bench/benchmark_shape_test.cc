#include "ridge/bench/benchmark_shape.h"

#include <gtest/gtest.h>

#include "ridge/base/file.h"

namespace ridge {
namespace {

std::string error_text(const std::string& text) {
  const auto shapes = parse_shapes(text, "s.csv");
  return shapes ? "accepted" : shapes.error().to_string();
}

TEST(BenchmarkShape, ReadsColumnsInAnyOrderAndSkipsComments) {
  const auto shapes = parse_shapes("m,n,k,dtype,op\n# a layer\n1,14336,4096,bf16,linear\r\n64,64,64,f32,nn\n", "s.csv");
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->size(), 2u);
  const auto linear = (*shapes)[0].problem(), square = (*shapes)[1].problem();
  EXPECT_EQ(linear.b.row_stride, 1);  // stored [n, k]
  EXPECT_EQ(linear.b.col_stride, 4096);
  EXPECT_EQ(linear.d.dtype, DType::f32);
  EXPECT_EQ(square.b.row_stride, 64);
  EXPECT_EQ((*shapes)[0].text(), "linear bf16 m=1 n=14336 k=4096");
  EXPECT_EQ((*shapes)[0].flops(), 2.0 * 14336 * 4096);
  EXPECT_EQ((*shapes)[0].bytes(), 2.0 * 4096 + 2.0 * 14336 * 4096 + 4.0 * 14336);
}

TEST(BenchmarkShape, AcceptsOnlySupportedDtypes) {
  EXPECT_EQ(error_text("op,dtype,m,n,k\nnn,f99,4,4,4\n"),
            "s.csv:2:1: expected dtype f32, bf16, f16 or int8, found 'f99'\n");
  EXPECT_EQ(error_text("op,dtype,m,n,k\nnn,f32,4,4,4\n\nnn,e4m3,4,4,4\n"),
            "s.csv:4:1: expected dtype f32, bf16, f16 or int8, found 'e4m3'\n");
  EXPECT_EQ(error_text("op,dtype,out,m,n,k\nnn,int8,f32,4,4,4\n"),
            "s.csv:2:1: expected out int32 of int8 operands, found 'f32'\n");
  EXPECT_EQ(error_text("op,dtype,weights,m,n,k\nnn,bf16,f16,4,4,4\n"),
            "s.csv:2:1: expected weights bf16 or int8, found 'f16'\n");
  EXPECT_EQ(error_text("op,dtype,out,m,n,k\nnn,bf16,f16,4,4,4\n"),
            "s.csv:2:1: expected out f32 or bf16 of bf16 operands, found 'f16'\n");
  EXPECT_EQ(error_text("op,dtype,out,m,n,k\nnn,bf16,int8,4,4,4\n"),
            "s.csv:2:1: expected out f32 or bf16 of bf16 operands, found 'int8'\n");
  EXPECT_EQ(error_text("op,dtype,out,m,n,k\nnn,f32,bf16,4,4,4\n"),
            "s.csv:2:1: expected out f32 of f32 operands, found 'bf16'\n");
  EXPECT_EQ(error_text("op,dtype,out,m,n,k\nnn,bf16,bf16,4,4,4\n"), "accepted");
}

TEST(BenchmarkShape, WeightsMayBeIntegers) {
  const auto shapes =
      parse_shapes("op,dtype,weights,out,m,n,k\nlinear,bf16,int8,bf16,8,64,32\nnn,int8,,int32,4,5,6\n", "s.csv");
  ASSERT_TRUE(shapes.ok()) << shapes.error().to_string();
  EXPECT_EQ((*shapes)[0].text(), "linear bf16*int8 m=8 n=64 k=32");
  EXPECT_EQ((*shapes)[0].problem().b.dtype, DType::int8);
  EXPECT_EQ((*shapes)[0].bytes(), 2.0 * 8 * 32 + 64 * 32 + 2.0 * 8 * 64);
  EXPECT_EQ((*shapes)[1].text(), "nn int8 m=4 n=5 k=6");
  EXPECT_EQ((*shapes)[1].out, DType::int32);
}

TEST(BenchmarkShape, RefusesInvalidRows) {
  EXPECT_EQ(error_text("op,dtype,m,n,k\nnn,f32,0,4,4\n"),
            "s.csv:2:1: expected m to be a whole number of at least 1, found '0'\n");
  EXPECT_EQ(error_text("op,dtype,m,n,k\nnn,f32,4,-4,4\n"),
            "s.csv:2:1: expected n to be a whole number of at least 1, found '-4'\n");
  EXPECT_EQ(error_text("op,dtype,m,n,k\nconv,f32,4,4,4\n"),
            "s.csv:2:1: expected op linear, nn, tn or tt, found 'conv'\n");
  EXPECT_EQ(error_text("op,dtype,m,n,k\nnn,f32,4,4\n"), "s.csv:2:1: expected 5 columns, found 4\n");
  EXPECT_EQ(error_text("op,dtype,m,n,k\n"),
            "'s.csv' holds no shapes\n  hint: expected a header op,dtype,m,n,k and at least one row\n");
  EXPECT_EQ(read_shapes("no/such.csv").error().to_string(),
            "cannot read 'no/such.csv': No such file or directory\n"
            "  hint: expected a CSV file with the columns op,dtype,m,n,k\n");
}

TEST(BenchmarkShape, ResultDtypeOnADeviceDefaultsToOperandDtype) {
  const auto shapes = parse_shapes("op,dtype,m,n,k\nlinear,f16,1,2,3\ntn,e4m3,1,2,3\nnn,int8,1,2,3\n", "s.csv",
                                   BenchmarkTarget::device);
  ASSERT_TRUE(shapes.ok());
  EXPECT_EQ(shapes->at(0).out, DType::f16);
  EXPECT_EQ(shapes->at(1).out, DType::bf16);
  EXPECT_EQ(shapes->at(2).out, DType::int32);
  EXPECT_EQ(parse_shapes("op,dtype,m,n,k\nlinear,int4,1,2,3\n", "s.csv", BenchmarkTarget::device).error().to_string(),
            "s.csv:2:1: expected dtype bf16, f16, f32, tf32, e4m3, e4m3_128 or int8, found 'int4'\n");
  EXPECT_EQ(
      parse_shapes("op,dtype,m,n,k,out\nlinear,f16,1,2,3,bf16\n", "s.csv", BenchmarkTarget::device).error().to_string(),
      "s.csv:2:1: expected out f16 or f32 of f16 operands, found 'bf16'\n");
  EXPECT_EQ(
      parse_shapes("op,dtype,m,n,k,out\nlinear,int8,1,2,3,f16\n", "s.csv", BenchmarkTarget::device).error().to_string(),
      "s.csv:2:1: expected out int32, bf16 or f32 of int8 operands, found 'f16'\n");
}

TEST(BenchmarkShape, BuiltInShapesEqualTheRepositoryFile) {
  EXPECT_EQ(default_shapes(), *read_file(RIDGE_SOURCE_DIR "/data/cpu_shapes.csv"));
  EXPECT_EQ(parse_shapes(default_shapes(), "data/cpu_shapes.csv")->size(), 60u);
}

}  // namespace
}  // namespace ridge
