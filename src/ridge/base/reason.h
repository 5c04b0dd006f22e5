// Why something is not possible, such as running a problem with a kernel.
#pragma once

#include <string>
#include <utility>

#include "ridge/base/check.h"

namespace ridge {

// A sentence that says why something is not possible, or no reason if it is possible.
class [[nodiscard]] Reason {
 public:
  Reason() = default;                                   // possible
  Reason(std::string text) : text_(std::move(text)) {}  // not possible, unless the text is empty
  Reason(const char* text) : text_(text) {}

  explicit operator bool() const { return !text_.empty(); }  // true if there is a reason
  const std::string& text() const {
    RIDGE_CHECK(!text_.empty(), "there is no reason");
    return text_;
  }

 private:
  std::string text_;  // empty if there is no reason
};

}  // namespace ridge
