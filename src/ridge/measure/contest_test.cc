#include "ridge/measure/contest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "ridge/measure/baseline.h"

namespace ridge::measure {
namespace {

std::string file_with(const std::string& text) {
  std::string path = testing::TempDir() + "shapes.csv";
  std::ofstream(path) << text;
  return path;
}

std::string refusal(const std::string& text) {
  const auto shapes = read_shapes(file_with(text));
  return shapes ? "accepted" : shapes.error().message;
}

TEST(Contest, ReadsColumnsInAnyOrderAndPassesOverComments) {
  const auto shapes =
      read_shapes(file_with("m,n,k,dtype,op\n# a layer\n1,14336,4096,bf16,linear\r\n64,64,64,f32,nn\n"));
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->size(), 2u);
  const auto linear = (*shapes)[0].problem(), square = (*shapes)[1].problem();
  EXPECT_EQ(linear.b.row_stride, 1);  // stored [n, k]
  EXPECT_EQ(linear.b.col_stride, 4096);
  EXPECT_EQ(linear.d.dtype, DType::f32);
  EXPECT_EQ(square.b.row_stride, 64);
}

TEST(Contest, RefusesShapesThatSayNothing) {
  EXPECT_EQ(refusal("op,dtype,m,n,k\nnn,f32,0,4,4\n"), "expected m to be a whole number of at least 1, found '0'");
  EXPECT_EQ(refusal("op,dtype,m,n,k\nnn,f32,4,-4,4\n"), "expected n to be a whole number of at least 1, found '-4'");
  EXPECT_EQ(refusal("op,dtype,m,n,k\nnn,f99,4,4,4\n"), "expected a dtype, found 'f99'");
  EXPECT_EQ(refusal("op,dtype,m,n,k\nconv,f32,4,4,4\n"), "expected op linear, nn, tn or tt, found 'conv'");
  EXPECT_EQ(refusal("op,dtype,m,n,k\nnn,f32,4,4\n"), "expected 5 columns, found 4");
  EXPECT_TRUE(refusal("op,dtype,m,n,k\n").ends_with("holds no shapes"));
  EXPECT_EQ(read_shapes("no/such.csv").error().message, "cannot read 'no/such.csv'");
}

TEST(Contest, ChecksOursWithoutAnybodyToCompareWith) {
  const auto result = contest({{"nn", DType::f32, DType::f32, 33, 47, 65},
                               {"linear", DType::bf16, DType::f32, 3, 20, 31},
                               {"tn", DType::f32, DType::f32, 17, 9, 5}},
                              {.threads = 1, .rounds = 1, .libraries = {}});
  ASSERT_TRUE(result.ok()) << result.error().text();
  ASSERT_EQ(result->rows.size(), 3u);
  for (const auto& row : result->rows) {
    EXPECT_TRUE(row.times[0].took_part);
    EXPECT_GT(row.times[0].median_s, 0);
    EXPECT_LT(row.times[0].max_error, 1e-5);
    EXPECT_EQ(row.best, "");
  }
  EXPECT_TRUE(result->classes().empty());
}

TEST(Contest, NamesALibraryThatNobodyKnows) {
  const auto result = contest({{"nn", DType::f32, DType::f32, 4, 4, 4}}, {.libraries = {"atlas"}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "atlas: expected a library among ridge, openblas, onednn, found 'atlas'; ");
}

TEST(Contest, SummarisesByDtypeAndRows) {
  Contest c;
  for (auto [m, ratio] : {std::pair{1, 4.0}, std::pair{64, 1.0}, std::pair{128, 2.0}})
    c.rows.push_back({.shape = {"nn", DType::f32, DType::f32, m, 8, 8}, .ratio = ratio});
  const auto classes = c.classes();
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_NEAR(classes[0].geometric_mean, 2.0, 1e-12);
  EXPECT_NEAR(classes[1].geometric_mean, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(classes[1].worst, 1.0);
  EXPECT_EQ(classes[2].rows, 1u);
}

TEST(Contest, TakesAwayWhatWouldCrippleABaseline) {
  setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const auto removed = clean_environment();
  EXPECT_NE(std::find(removed.begin(), removed.end(), "OPENBLAS_CORETYPE=Haswell"), removed.end());
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
}

}  // namespace
}  // namespace ridge::measure
