#include "ridge/base/function.h"

#include <gtest/gtest.h>

#include "ridge/base/file.h"

namespace ridge {
namespace {

TEST(Functions, have_a_reference_and_a_description) {
  for (const FunctionInfo& f : function_table) {
    EXPECT_EQ(f.reference != nullptr, is_elementwise(f)) << f.name;
    EXPECT_EQ(f.description.empty(), f.syntax != FunctionSyntax::call && f.syntax != FunctionSyntax::over_dims &&
                                         f.syntax != FunctionSyntax::power)
        << f.name;
    EXPECT_EQ(f.symbol.empty(), f.syntax == FunctionSyntax::call || f.syntax == FunctionSyntax::over_dims ||
                                    f.syntax == FunctionSyntax::none)
        << f.name;
  }
}

TEST(Functions, page_contains_the_table) {
  const std::string page = *read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/functions.md");
  EXPECT_NE(page.find(format_function_table()), std::string::npos) << format_function_table();
}

}  // namespace
}  // namespace ridge
