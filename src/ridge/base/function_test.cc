#include "ridge/base/function.h"

#include <gtest/gtest.h>

#include "ridge/base/file.h"

namespace ridge {
namespace {

TEST(Functions, have_a_value_and_a_line_of_the_page_each) {
  for (const FunctionRow& f : function_rows) {
    EXPECT_EQ(f.value != nullptr, is_elementwise(f)) << f.name;
    EXPECT_EQ(f.says.empty(),
              f.written != Written::called && f.written != Written::along && f.written != Written::power)
        << f.name;
    EXPECT_EQ(f.sign.empty(),
              f.written == Written::called || f.written == Written::along || f.written == Written::nowhere)
        << f.name;
  }
}

TEST(Functions, page_holds_the_table_of_the_rows) {
  const std::string page = *read_file(std::string(RIDGE_SOURCE_DIR) + "/docs/functions.md");
  EXPECT_NE(page.find(functions_table()), std::string::npos) << functions_table();
}

}  // namespace
}  // namespace ridge
