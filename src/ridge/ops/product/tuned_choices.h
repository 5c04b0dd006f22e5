// Store of plans that measurement chose (measure/tune.h), for later runs. The key of an entry is the device and all
// that a plan depends on: sizes, strides, dtypes, alignment, epilogue. An entry records driver, version and kernel
// configurations. An entry with other values of these, with a plan that the planner does not offer, or that is corrupt,
// is ignored with a message, and the model's choice is used: a stored choice may be slow, but never wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ridge/device/kernel_store.h"
#include "ridge/ops/model.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

struct TunedChoice {
  MatmulPlan plan;
  double seconds = 0, model_seconds = 0;  // Measured times of this plan and of the model's choice, interleaved
  int candidate_count = 0;                // Number of measured plans
};

struct TuningEnvironment {
  std::string device;  // "NVIDIA H200"
  int driver = 0;
  DeviceNumbers numbers = {};
};

// Returns all that a choice depends on, except the environment, as a line of text.
std::string tuning_key(const MatmulCall& call);
class TunedChoices {
 public:
  TunedChoices(device::KernelStore store, TuningEnvironment environment)
      : store_(std::move(store)), environment_(std::move(environment)) {}
  static TunedChoices for_user(TuningEnvironment environment);  // $XDG_CACHE_HOME/ridge/tuned, or ~/.cache/ridge/tuned

  struct Lookup {
    std::optional<TunedChoice> choice;
    std::string ignored_reason = {};  // Why an entry is ignored, without the folder, which may contain a user name
  };
  // Returns the stored choice with a plan rebuilt for this call and workspace. Requires a supported call.
  Lookup find(const MatmulCall& call, std::size_t workspace_bytes) const;
  bool save(const MatmulCall& call, const TunedChoice& choice) const;  // True if saved
  const TuningEnvironment& environment() const { return environment_; }
  std::string entry_path(const MatmulCall& call) const { return store_.entry_path(key(call)); }

 private:
  std::string key(const MatmulCall& call) const;

  device::KernelStore store_;
  TuningEnvironment environment_;
};

}  // namespace ridge::ops::cuda
