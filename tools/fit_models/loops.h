// Reads data/timings/loops: times of loops on a device. Their constants in kernels.csv are fitted to every other site
// of a kind, and the remaining sites show the error. A site is a program and its sizes without the dtype.
#pragma once

#include <string>
#include <vector>

#include "ridge/ops/fitted.h"
#include "ridge/plan/plan.h"

namespace ridge::fit {

struct TimedLoop {
  std::string kind;  // A line of spreads.csv if the kind has more than one site
  decltype(PlanStep::kernel) kernel;
  double measured_s = 0;
  std::size_t site = 0;  // Number of the site in its kind; odd ones are held out
  bool is_held_out() const { return site % 2 == 1; }
};

Result<std::string> read_loops_day(const std::string& root);
// Errors: a file that cannot be read, a program that does not run as one kernel, a timing on another device.
Result<std::vector<TimedLoop>> read_loops(const std::string& root, const std::string& device_name);

// Returns the constants of a kind; none if nothing is fitted to it.
std::vector<double ops::KernelConstants::*> list_loop_constants(const std::string& kind);
// Returns the kinds in the order of the file.
std::vector<std::string> list_loop_kinds(const std::vector<TimedLoop>& timings);

std::size_t count_loop_sites(const std::vector<TimedLoop>& timings, const std::string& kind);

enum class LoopSites { fitted, held_out, all };
// Returns measured over predicted times of a kind, with the current kernel_constants().
std::vector<double> loop_ratios(const std::vector<TimedLoop>& timings, const std::string& kind, LoopSites sites,
                                const ops::DeviceNumbers& device);

}  // namespace ridge::fit
