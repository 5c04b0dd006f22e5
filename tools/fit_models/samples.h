// Timings for the fit: one plan of one product on one device, with all inputs of its prediction.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/bench/plan_timings.h"
#include "ridge/ops/product/time/correction.h"

namespace ridge::fit {

inline constexpr int folds = 5;

struct Sample {
  int product = 0;  // index among all products
  int device = 0;   // index in Samples::devices
  int fold = 0;     // the same for all products with the same n and k
  const ops::MatmulConfig* config = nullptr;
  ops::cuda::TileWork work;
  ops::cuda::SplitK split;
  double measured_s = 0;
  double log_measured = 0;
  double weight = 0;  // largest for plans close to the product's fastest
};

struct Device {
  TimedDevice as_timed;
  ops::DeviceNumbers numbers;  // from the machine file; those of [plan] are fitted
  std::string files;           // "data/timings/h100_sxm.csv data/timings/h100_sxm_2.csv"
  int timings = 0;
};

struct FewRows {  // a timing of the kernel for few rows
  int device = 0;
  ops::cuda::GemvWork work;
  double measured_s = 0;
};

struct Samples {
  std::vector<Device> devices;
  std::vector<FewRows> few_rows;
  std::vector<Sample> all;  // samples of one product are contiguous
  int products = 0;
};

// Reads timings of any number of devices. Plans that no longer exist and products without tiles are left out. `model`
// makes plans; its predictions are not used. Errors: a file that cannot be read, an unknown device.
Result<Samples> read_samples(const std::vector<std::string>& paths, const ops::cuda::ProductModel& model);

}  // namespace ridge::fit
