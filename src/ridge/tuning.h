// Source of a matrix product's plan on a CUDA device: the performance model, cached measurements, or new ones.
#pragma once

namespace ridge {

struct Tuning {
  enum class From {
    model,     // The model's choice; the cache is not read
    cached,    // The fastest plan of an earlier measurement in the user's cache, else the model's choice
    measured,  // The cached choice; without one, measures the model's best `candidates` and caches the fastest
  };
  From from = From::model;
  int candidates = 8;  // Number of plans to measure, at least 1
};

}  // namespace ridge
