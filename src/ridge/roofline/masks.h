// Conditions on two indices, such as the causal index(T) <= index(S) or a window of them, and what work they save. What
// where(condition, a, -inf) leaves to a softmax is 0 outside of the condition, and so is where(condition, a, 0): a
// product with it skips those terms, and what is only read inside of the condition need not be computed outside.
//   s[S, H, T] = q * k                                                        2*S*H*T*E, of which a half is read
//   p[S, H, T] = softmax(where(index(T) <= index(S), s, -inf) over T)         where T = S: S*(S + 1)/2 of S*T pairs
//   o[S, H, E] = p * v                                                        the other half of p is 0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"

namespace ridge {

// What is counted of a convolution along one of its window dimensions.
enum class WindowCount {
  taps,
  touched
};  // pairs of a position and a place of its window inside of the input; the
    // input's elements that some window reaches

// What is counted of rows that are routed to experts: thousandths of an expert that some row reaches, in expectation
// where their loads are not said; rows that a capacity leaves.
enum class RoutingCount { experts, kept };

// Of the positions i along `rows` and j along `columns`, those with lower <= i - j <= upper. Or, of a window's places
// j at its positions i, those inside of the input.
struct Mask {
  std::string rows, columns;
  std::optional<Polynomial> lower = {}, upper = {};                 // in dimensions; none: no bound on that side
  std::vector<std::int64_t> row_lengths = {}, column_lengths = {};  // of pairs in one sequence; empty: in all of them
  std::string symbol = {};                                          // what counts call the number of pairs: "pairs"
  std::optional<Window> window = {};
  WindowCount of_window = WindowCount::taps;
  std::optional<Routing> routing = {};  // or, of the rows that go to experts, what of_routing says
  RoutingCount of_routing = RoutingCount::experts;
  bool same_condition(const Mask& o) const {
    return rows == o.rows && columns == o.columns && lower == o.lower && upper == o.upper &&
           row_lengths == o.row_lengths && column_lengths == o.column_lengths && window == o.window &&
           of_window == o.of_window && routing == o.routing && of_routing == o.of_routing;
  }
};

// Which mask a statement's work lies inside of, as indices into `all`, -1: none. Of an expression each node has its
// own.
struct MaskedStatement {
  int product = -1;
  std::vector<int> nodes = {};
  std::vector<int> taps = {}, touched = {};  // of a convolution, along each window dimension
  int experts = -1, kept = -1;               // of a routed product
};

struct Masks {
  std::vector<Mask> all;
  std::vector<MaskedStatement> statements;  // one each
};
Masks masks_of(const Program& program);

// The dimensions by which the number of pairs changes.
std::vector<std::string> hangs_on(const Mask& mask);

// The pairs let through; none: a dimension has no value, or the count leaves 2^63.
std::optional<std::int64_t> pairs(const Mask& mask, const Bindings& dims);
// In closed form, where the program says that both dimensions are equal and `given` does not say otherwise, and the
// mask is a triangle: S*S/2 + S/2.
std::optional<Polynomial> closed_form(const Mask& mask, const Program& program, const Bindings& given);
std::string text(const Mask& mask);  // "0 <= index(S) - index(T)"

}  // namespace ridge
