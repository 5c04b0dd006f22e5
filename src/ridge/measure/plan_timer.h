// Times plans of one product in turns, on separate memory: operands of random normals that rotate, so that the L2 is
// cold if 256 sets of them exceed it; one CUDA graph of launches per plan. Errors: no device, no device memory for the
// operands.
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
  double replay_seconds = 2e-3;  // minimum time of one replay of a graph, if 256 launches take as long
  double warm_seconds = 0.1;     // time of replays before the first sample, at least one per plan
};

class PlanTimer {
 public:
  // The call must be supported (`refuse` returns nullopt).
  explicit PlanTimer(const ops::cuda::MatmulCall& call, const PlanTiming& options = {});

  // Returns the median seconds of a launch per plan, in order. The first call allocates memory.
  Result<std::vector<double>> measure(const std::vector<ops::cuda::MatmulPlan>& plans, int rounds);

 private:
  struct Operand {  // an operand of the call, and its copy's offset in a set
    const void* given;
    DType dtype;
    std::int64_t elements;
    std::int64_t offset = 0;  // keeps the original's alignment modulo 16 bytes
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
  std::int64_t bytes_ = 0, sets_ = 1, launches_ = 1;  // set_bytes_: bytes of one set of operands
  std::optional<ops::cuda::Queue> queue_ = {};
  std::vector<ops::cuda::Memory> memory_ = {};
  ops::cuda::Workspace workspace_ = {};
};

}  // namespace ridge
