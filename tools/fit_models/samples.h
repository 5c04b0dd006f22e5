// Timings as the fit sees them: one plan of one product on one device, with all that predictions ask about.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/measure/contest/plan_timings.h"
#include "ridge/ops/product/time/correction.h"

namespace ridge::fit {

inline constexpr int folds = 5;

struct Sample {
  int product = 0;  // its place among all products
  int device = 0;   // of Samples::devices
  int fold = 0;     // all products of one n and k lie in one
  const ops::MatmulConfig* config = nullptr;
  ops::cuda::TileWork work;
  ops::cuda::SplitK split;
  double measured_s = 0;
  double log_measured = 0;
  double weight = 0;  // plans near a product's fastest count most
};

struct Device {
  TimedDevice as_timed;
  ops::DeviceNumbers numbers;  // as the machine's file says; what [plan] tells is fitted
  std::string files;           // "data/timings/h100_sxm.csv data/timings/h100_sxm_2.csv"
  int timings = 0;
};

struct FewRows {  // a timing of the kernel for a few rows
  int device = 0;
  ops::cuda::GemvWork work;
  double measured_s = 0;
};

struct Samples {
  std::vector<Device> devices;
  std::vector<FewRows> few_rows;
  std::vector<Sample> all;  // a product's side by side
  int products = 0;
};

// Reads timings of any number of devices. Plans that are no longer offered are left out, as are products without
// tiles. `model` plans; what it predicts is not looked at. Errors: a file that cannot be read, an unknown device.
Result<Samples> read_samples(const std::vector<std::string>& paths, const ops::cuda::ProductModel& model);

}  // namespace ridge::fit
