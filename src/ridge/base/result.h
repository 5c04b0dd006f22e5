// A value or an Error. Only functions that depend on input or on the system return it.
#pragma once

#include <utility>
#include <variant>

#include "ridge/base/check.h"
#include "ridge/base/error.h"

namespace ridge {

template <class T> class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const T& value() const& {
    RIDGE_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T& value() & {
    RIDGE_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    RIDGE_CHECK(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }
  const Error& error() const {
    RIDGE_CHECK(!ok(), "the result holds a value");
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).message; }
  std::variant<T, Error> state_;
};

struct Done {
  bool operator==(const Done&) const = default;
};
using Status = Result<Done>;  // result without a value; success is Done{}

}  // namespace ridge

// Evaluates the expression, a Result, once. Returns its error from the enclosing function, or declares the variable
// `name` with its value.
#define RIDGE_TRY(name, ...)                             \
  auto&& name##_result = __VA_ARGS__;                    \
  if (!name##_result.ok()) return name##_result.error(); \
  auto name = *std::forward<decltype(name##_result)>(name##_result)

// Evaluates the expression, a Result whose value is not needed, once, and returns its error from the enclosing
// function.
#define RIDGE_TRY_STATUS(...)                                                                    \
  do {                                                                                           \
    if (const auto& ridge_status = __VA_ARGS__; !ridge_status.ok()) return ridge_status.error(); \
  } while (false)
