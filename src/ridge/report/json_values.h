// JSON values that several reports write.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "ridge/plan/predict.h"
#include "ridge/symbol/polynomial.h"

namespace ridge {

using Json = nlohmann::ordered_json;

// Returns the value, or null if there is none.
template <class T> Json or_null(const std::optional<T>& value) { return value ? Json(*value) : Json(nullptr); }
// Returns a count. Above 2^63 it becomes the nearest double, because JSON readers have no larger integers.
inline Json count_json(Count value) {
  if (value > INT64_MAX) return static_cast<double>(value);
  return static_cast<std::int64_t>(value);
}
inline Json or_null(const std::optional<Count>& value) { return value ? count_json(*value) : Json(nullptr); }
// Returns the text, or null if it is empty.
inline Json or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }
// Returns the number, or null if it is not positive, which means "unknown".
template <class T> Json positive_or_null(T value) { return value > 0 ? Json(value) : Json(nullptr); }
inline Json interval_json(const Interval& x) { return {{"low", x.low}, {"expected", x.expected}, {"high", x.high}}; }
// A kernel without a model has a bound and no expectation.
inline Json predicted_json(const Interval& x, bool has_model) {
  return has_model ? interval_json(x) : Json{{"low", x.low}, {"expected", nullptr}, {"high", nullptr}};
}

}  // namespace ridge
