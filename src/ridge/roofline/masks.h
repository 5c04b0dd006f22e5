// Conditions on two indices, such as the causal index(T) <= index(S) or a window of indices, and the work that they
// save. where(condition, a, -inf) under a softmax gives 0 outside the condition, and so does where(condition, a, 0). A
// product skips terms that are 0, and values that are read only inside the condition are not computed outside.
//   s[S, H, T] = q * k                                                        2*S*H*T*E, half of which is read
//   p[S, H, T] = softmax(where(index(T) <= index(S), s, -inf) over T)         T = S: S*(S + 1)/2 of S*T pairs
//   o[S, H, E] = p * v                                                        the other half of p is 0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"
#include "ridge/roofline/regions/region.h"

namespace ridge {

// Quantities counted along one window dimension of a convolution.
enum class WindowCount {
  taps,
  touched
};  // `taps`: pairs of a position and a window tap inside the input; `touched`: input elements that a window reads

// Quantities counted for rows that are routed to experts: thousandths of the number of experts with a row (the
// expectation if the loads are unknown), and the rows within the capacity.
enum class RoutingCount { experts, kept };

// Rows of a table that indices name, as if all indices differed: min(number of indices, rows).
struct TableRows {
  // Dimensions of each tensor of indices that the table lacks, with their sharding
  std::vector<std::vector<Axis>> indices;
  Axis rows;
  bool operator==(const TableRows&) const = default;
};

// Pairs of i along `rows` and j along `columns` with lower <= i - j <= upper; without `columns`, indices with lower <=
// i
// <= upper. With `region`, the tuples of any other condition; with `window`, pairs of a position i and a tap j inside
// the input; with `routing`, the quantity `routing_count`.
struct IndexMask {
  std::string rows, columns = {};
  std::optional<Polynomial> lower = {}, upper = {};  // Bounds in dimensions; nullopt if there is none on that side
  // Lengths of packed sequences; if set, both indices must be in one sequence
  std::vector<std::int64_t> row_lengths = {}, column_lengths = {};
  std::string symbol = {};  // Symbol for the number of pairs in formulas: "pairs"
  std::optional<CountedRegion> region = {};
  std::optional<WindowDimension> window = {};
  WindowCount window_count = WindowCount::taps;
  std::optional<Routing> routing = {};  // Set for rows that are routed to experts
  RoutingCount routing_count = RoutingCount::experts;
  std::optional<TableRows> gathered = {};
  bool has_same_condition(const IndexMask& o) const {
    return rows == o.rows && columns == o.columns && lower == o.lower && upper == o.upper &&
           row_lengths == o.row_lengths && column_lengths == o.column_lengths && region == o.region &&
           window == o.window && window_count == o.window_count && routing == o.routing &&
           routing_count == o.routing_count && gathered == o.gathered;
  }
};
// Returns the dimensions whose indices are counted, for masks without a window or routing.
std::vector<std::string> counted_dims(const IndexMask& mask);

// Masks that restrict the work of a statement, as indices into `all`; -1 if none. Nodes of an expression have one each.
struct StatementMasks {
  int product = -1;
  std::vector<int> nodes = {};
  std::map<int, int> reads = {};             // Masks of the elements of each input that are read, by tensor
  std::vector<int> taps = {}, touched = {};  // Masks of a convolution along each window dimension
  int experts = -1, kept = -1;               // Masks of a routed product
  int gathered = -1;                         // Mask of a gather
};

struct ProgramMasks {
  std::vector<IndexMask> all;
  std::vector<StatementMasks> statements;  // One entry per statement
  std::map<int, int> read_by_all = {};  // Masks of what all statements read of a tensor, if they read different parts
  std::vector<std::string> not_counted = {};  // Sentences about conditions that exclude nothing
};
ProgramMasks find_masks(const Program& program);
bool has_index_masks(const Program& program);  // True if a statement uses indices
// Adds the masks of conditions on indices.
void add_index_masks(const Program& program, ProgramMasks& masks);
// Returns the axes along which a product multiplies, with the sharding of the operands.
std::vector<Axis> list_product_axes(const Program& program, const Contraction& product);
// Returns the index spaces with their mesh axes; index(T) is split like the axis T.
IndexSpaces find_sharded_spaces(const Program& program, const Expression& op);
// Returns the symbol, with underscores behind it until no dimension of the program begins with it.
std::string make_unused_symbol(const Program& program, std::string symbol);

// Returns the dimensions that the number of pairs depends on.
std::vector<std::string> dependency_dims(const IndexMask& mask);

// Returns the number of unmasked pairs, or nullopt if a dimension has no value or the count exceeds 2^63.
std::optional<std::int64_t> count_unmasked(const IndexMask& mask, const Bindings& dims);
// Counts a region within a limit of work (count_region), all others as above.
std::optional<std::int64_t> count_unmasked(const IndexMask& mask, const Bindings& dims, std::int64_t& work_left);
// Returns the number of unmasked pairs as a formula if the program's sizes allow it (and `given` does not change them):
// S*S/2 + S/2 for a triangle if one dimension is set to the other, T for keys that some query sees at any size.
std::optional<Polynomial> mask_closed_form(const IndexMask& mask, const Program& program, const Bindings& given);
std::string format_mask(const IndexMask& mask);  // "0 <= index(S) - index(T)"

}  // namespace ridge
