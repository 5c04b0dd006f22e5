// Assertion for bugs in Ridge itself: prints file, line and values, then aborts. No user input can trigger it.
#pragma once

#include <string_view>

namespace ridge {
[[noreturn]] void abort_failed_check(const char* file, int line, const char* condition, std::string_view values);
}

#define RIDGE_CHECK(condition, values)                                                       \
  do {                                                                                       \
    if (!(condition)) ::ridge::abort_failed_check(__FILE__, __LINE__, #condition, (values)); \
  } while (false)
