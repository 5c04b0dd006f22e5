// Assertion for bugs in Ridge itself: prints file, line and values, then aborts. No user input can trigger it.
#pragma once

#include <string_view>

namespace ridge {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view values);
}

#define RIDGE_CHECK(condition, values)                                                 \
  do {                                                                                 \
    if (!(condition)) ::ridge::check_failed(__FILE__, __LINE__, #condition, (values)); \
  } while (false)
