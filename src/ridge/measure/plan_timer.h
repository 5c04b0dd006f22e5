// Times plans of one product in turns, on memory of its own: operands of normal random numbers that rotate, so that the
// L2 is cold wherever 256 sets of them are more than it holds, launches in a CUDA graph, one graph a plan. For an
// error: no device, no memory for the operands on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

struct PlanTiming {
  double replay_seconds = 2e-3;  // that one replay of a graph takes at least, unless 256 launches take less
  double warm_seconds = 0.1;     // of replays before the first that counts; each plan has one
};

class PlanTimer {
 public:
  // The call must not be refused.
  explicit PlanTimer(const ops::cuda::MatmulCall& call, const PlanTiming& options = {});

  // Median seconds of a launch, in the order of the plans; what they need is allocated at the first call.
  Result<std::vector<double>> measure(const std::vector<ops::cuda::MatmulPlan>& plans, int rounds);

 private:
  struct Operand {  // of the call, and where its copy lies in a set
    const void* given;
    DType dtype;
    std::int64_t elements;
    std::int64_t offset = 0;  // past 16 bytes as far as the given one
  };

  void add(const void* given, const ops::MatrixLayout& x, std::int64_t rows, std::int64_t cols);
  Status allocate(const std::vector<ops::cuda::MatmulPlan>& plans);
  Status fill() const;
  std::byte* at(std::int64_t set, const void* given) const;
  Status launch(const ops::cuda::MatmulPlan& plan, std::int64_t set) const;
  Result<ops::cuda::Recording> recorded(const ops::cuda::MatmulPlan& plan) const;
  Result<double> once(const ops::cuda::Recording& recording) const;

  const ops::cuda::MatmulCall& call_;
  PlanTiming options_;
  std::vector<Operand> operands_ = {};
  std::int64_t bytes_ = 0, sets_ = 1, launches_ = 1;  // bytes of a set
  std::optional<ops::cuda::Queue> queue_ = {};
  std::vector<ops::cuda::Memory> memory_ = {};
  ops::cuda::Workspace workspace_ = {};
};

}  // namespace ridge
