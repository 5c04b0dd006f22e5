// Which build this is: semantic version and the commit that it was built from ("unknown" outside a checkout).
#pragma once

#include <string_view>

namespace ridge {
std::string_view version();
std::string_view commit();
}  // namespace ridge
