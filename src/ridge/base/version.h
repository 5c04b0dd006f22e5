// Version and Git commit of this build; the commit is "unknown" outside a checkout.
#pragma once

#include <string_view>

namespace ridge {
std::string_view version();
std::string_view commit();
}  // namespace ridge
