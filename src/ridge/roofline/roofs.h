// Inside of explain(): what a single operation and a sum of them have in common. Counts against the roofs of one
// machine, each a count over a rate.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/roofline/balance.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct Setting {
  const Machine& machine;
  double bandwidth;
  Bindings dims;
  std::vector<std::string> order;
  Ways ways = {};                            // of finding thresholds
  std::optional<double> link = {};           // B/s, where anything is sent
  std::optional<Network> network = {};       // whose it is
  double launch_s = 0;                       // of a kernel; 0: not on record
  std::map<std::string, double> sizes = {};  // dims as real numbers
  bool thresholds = true;
  std::vector<std::string> tied = {};  // dimensions that equal another one inside of a mask's closed form
};

// A kernel's launch; 0 where none is on record.
double launch_s(const Machine& machine);

struct Roof {  // its time in s, as doubles have it
  Limiter name;
  Polynomial count;
  double rate, time;
};

// From the roof that takes longest on; of equals the first listed.
Result<std::vector<Limiter>> ranked(std::vector<Roof> roofs, const Setting& setting);

// None where a dimension has no value. Error: the count leaves 10^38.
Result<std::optional<Count>> number(const Polynomial& count, const Bindings& dims);

std::string intensity_formula(const Ratio& ratio, std::span<const std::string> order);

// The limiter and its runner-up; of roofs that are none there is no answer.
Status limited(Prediction& p, std::vector<Roof> roofs, const Setting& setting);

// Of every pair of roofs; `flops` at `peak`, 0: without it.
void add_thresholds(Prediction& p, const Polynomial& flops, double peak, const Setting& setting);

}  // namespace ridge
