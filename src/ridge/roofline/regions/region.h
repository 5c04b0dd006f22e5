// Index tuples as a formula, some variables of which only need some value: the keys that any query sees.
//   {(S, T): index(T) <= index(S)}             causal pairs
//   {T: for some S, index(T) <= index(S)}      min(S, T) keys
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/regions/formula.h"

namespace ridge {

class Region {
 public:
  Region() = default;  // all tuples
  explicit Region(Formula formula) : formula_(std::move(formula)) {}

  const Formula& formula() const { return formula_; }
  const std::map<std::string, std::string>& bound() const { return bound_; }  // variables that need some value: dims
  bool is_all() const { return formula_.is_all(); }
  bool operator==(const Region&) const = default;

  Region intersect(const Formula& o) const;
  Region unite(const Region& o) const;
  // Requires only some index along each dimension that is not in `axes`.
  Region project(const std::vector<Axis>& axes) const;
  Region bind(const std::vector<Axis>& axes) const;  // requires only some index along each of the axes
  std::vector<std::string> free_dims() const;        // sorted
  std::string to_string() const;

 private:
  Region bind_variables(const std::vector<std::string>& names) const;
  Formula formula_;
  std::map<std::string, std::string> bound_;
};

// Region of which a device has the part within its shards.
struct CountedRegion {
  Region region;
  std::vector<std::string> dims = {};                               // Counted dimensions: those of the tuples
  std::map<std::string, std::string> mesh = {};                     // Mesh axes of split dimensions
  std::map<std::string, std::vector<std::int64_t>> sequences = {};  // Lengths along dimensions with sequence(S)
  bool operator==(const CountedRegion&) const = default;
};

// Returns the number of tuples, on the device with the most if the region is split. nullopt: a size is missing or above
// 2^40, or the region is too irregular to be counted in a few thousand steps.
std::optional<std::int64_t> count_region(const CountedRegion& region, const Bindings& sizes);
// Returns nullopt also once `work_left`, the number of sums that may be evaluated, is used up.
std::optional<std::int64_t> count_region(const CountedRegion& region, const Bindings& sizes, std::int64_t& work_left);
// Returns the number of tuples on all devices together.
std::optional<std::int64_t> count_on_all_devices(const CountedRegion& region, const Bindings& sizes);

std::vector<std::string> dependency_dims(const CountedRegion& region);

}  // namespace ridge
