// Conditions that hold at all sizes of a program's dimensions: with dims T = S, some query sees every key.
#pragma once

#include <map>
#include <string>

#include "ridge/roofline/regions/region.h"

namespace ridge {

class SizeProof {
 public:
  // `ties` holds the formulas of sizes that follow others: T = S.
  explicit SizeProof(std::map<std::string, Polynomial> ties) : ties_(std::move(ties)) {}

  // The following are true only if that holds for all sizes of at least 1.
  bool is_at_least_zero(const Polynomial& size) const;
  bool is_everything(const CountedRegion& region) const;  // For a split region, the device with the most has all

 private:
  bool holds_everywhere(const Formula& formula) const;
  bool has_witnesses(const Formula& formula, const CountedRegion& region, std::vector<std::string> open) const;

  std::map<std::string, Polynomial> ties_;
};

}  // namespace ridge
