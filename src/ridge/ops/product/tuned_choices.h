// Choices of a plan that were measured (measure/tune.h), kept for later runs in the one kind of store that there is
// (kernel_store.h): an entry a device and call, named by everything that a plan depends on: sizes, strides, dtypes,
// alignment, what the sums end in. The entry says by which driver, version and menu it was measured. Whatever does not
// hold any more (another driver, version or menu, a plan that the planner would not offer today, damage) is ignored
// with a sentence, and the model's choice stands: a stored choice may be slow, but it is never another product.
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
  double seconds = 0, model_seconds = 0;  // of the plan and of the model's choice, measured in turns
  int candidates = 0;                     // how many plans were asked for
};

struct TuningPlace {
  std::string device;  // "NVIDIA H200"
  int driver = 0;
  DeviceNumbers numbers = {};
};

// Everything that a choice may depend on, but for the place, as a line of text.
std::string tuning_key(const MatmulCall& call);
class TunedChoices {
 public:
  TunedChoices(KernelStore store, TuningPlace place) : store_(std::move(store)), place_(std::move(place)) {}
  static TunedChoices of_user(TuningPlace place);  // $XDG_CACHE_HOME/ridge/tuned, or ~/.cache/ridge/tuned

  struct Found {
    std::optional<TunedChoice> choice;
    std::string ignored = {};  // why an entry that lies there is no choice: a sentence without the folder, which
                               // names the user; empty: none lies there, or it is one
  };
  // The call must not be refused. The plan is made anew, for this call and workspace.
  Found find(const MatmulCall& call, std::size_t workspace_bytes) const;
  bool keep(const MatmulCall& call, const TunedChoice& choice) const;  // whether it did
  const TuningPlace& place() const { return place_; }
  std::string path(const MatmulCall& call) const { return store_.path(key(call)); }

 private:
  std::string key(const MatmulCall& call) const;

  KernelStore store_;
  TuningPlace place_;
};

}  // namespace ridge::ops::cuda
