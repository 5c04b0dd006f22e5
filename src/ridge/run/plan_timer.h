// Times plans of one product alternately, on separate memory. Operands are random normals; launches rotate through up
// to 256 copies of them, so that the L2 is cold. Each plan has one CUDA graph of launches. Errors: no device, no device
// memory for the operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/cuda.h"

namespace ridge {

struct PlanTimerOptions {
  double replay_seconds = 2e-3;  // minimum time of one replay of a graph (of at most 256 launches)
  double warmup_seconds = 0.1;   // time of replays before the first sample, at least one per plan
};

class PlanTimer {
 public:
  // The call must be supported (`unsupported_reason` returns nullopt).
  explicit PlanTimer(const ops::cuda::MatmulCall& call, const PlanTimerOptions& options = {});

  // Returns the median seconds of a launch per plan, in order. The first call allocates memory.
  Result<std::vector<double>> measure_plans(const std::vector<ops::cuda::MatmulPlan>& plans, int rounds);

 private:
  struct RotatedOperand {  // an operand of the call, and its copy's offset in a set
    const void* original;
    DType dtype;
    std::int64_t elements;
    std::int64_t offset = 0;  // keeps the original's alignment modulo 16 bytes
  };

  void add_operand(const void* original, const ops::MatrixLayout& x, std::int64_t rows, std::int64_t cols);
  Status allocate_sets(const std::vector<ops::cuda::MatmulPlan>& plans);
  Status fill_sets() const;
  std::byte* operand_address(std::int64_t set, const void* original) const;
  Status launch_plan(const ops::cuda::MatmulPlan& plan, std::int64_t set) const;
  Result<device::RecordedGraph> record_launches(const ops::cuda::MatmulPlan& plan) const;
  Result<double> time_launch(const device::RecordedGraph& recording) const;

  const ops::cuda::MatmulCall& call_;
  PlanTimerOptions options_;
  std::vector<RotatedOperand> operands_ = {};
  std::int64_t set_bytes_ = 0, set_count_ = 1, launches_per_graph_ = 1;  // set_bytes_: bytes of one set of operands
  std::optional<device::Queue> queue_ = {};
  std::vector<device::DeviceBuffer> memory_ = {};
  device::DeviceWorkspace workspace_ = {};
};

}  // namespace ridge
