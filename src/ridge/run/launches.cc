#include "ridge/run/launches.h"

#include <algorithm>

#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/loops/cuda.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::size_t max_workspace_bytes = ops::plan_workspace_bytes;

std::vector<void*> step_addresses(const PlanStep& step, const std::vector<std::byte*>& addresses) {
  std::vector<void*> data;
  for (const int buffer : step.buffers) data.push_back(buffer < 0 ? nullptr : addresses[buffer]);
  return data;
}

}  // namespace

Reason device_unsupported_reason(const PlanStep& step) {
  return std::visit(
      [](const auto& kernel) -> Reason {
        if constexpr (requires { cuda::unsupported_reason(kernel); })
          return cuda::unsupported_reason(kernel);
        else
          return "no CUDA kernel supports this; --on cpu runs it";
      },
      step.kernel);
}

Result<DeviceLaunches> DeviceLaunches::make(Plan plan, const BufferAddresses& addresses,
                                            const LaunchOptions& launch_options) {
  if ((launch_options.output_mode == OutputMode::accumulate || launch_options.scattered.rows > 0) &&
      (plan.steps.empty() || !std::holds_alternative<ops::MatmulProblem>(plan.steps.back().kernel)))
    return input_error("only a product can accumulate into its result");
  DeviceLaunches out(std::move(plan), launch_options);
  if (launch_options.gathered.rows > 0) {
    const auto first =
        out.plan_.steps.empty() ? std::nullopt : out.make_product_call(out.plan_.steps.front(), addresses);
    if (!first || !std::holds_alternative<cuda::MatmulCall>(*first))
      return input_error("gathered rows must be read by a product");
  }
  for (const PlanStep& step : out.plan_.steps) {
    out.chosen_plans_.emplace_back();
    const bool is_tuned = !launch_options.group || step.group == *launch_options.group;
    RIDGE_TRY_STATUS(out.choose_step_plan(step, addresses, is_tuned ? launch_options.tune : TuneOptions{}));
  }
  return out;
}

// Returns the call of a product with its epilogue, or nullopt for any other step.
std::optional<cuda::FusedCall> DeviceLaunches::make_product_call(const PlanStep& step,
                                                                 const BufferAddresses& addresses) const {
  const std::vector<void*> data = step_addresses(step, addresses);
  if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) {
    cuda::FusedCall out = cuda::make_fused_call(*fused, data);
    if (auto* const call = std::get_if<cuda::MatmulCall>(&out); call != nullptr && &step == &plan_.steps.front())
      call->gathered = gathered_;
    return out;
  }
  const auto* problem = std::get_if<ops::MatmulProblem>(&step.kernel);
  if (problem == nullptr) return std::nullopt;
  cuda::MatmulCall out{*problem, data[0], data[1], data[2]};
  if (problem->grouped) out.starts = static_cast<const std::int32_t*>(data[3]);
  if (&step == &plan_.steps.front()) out.gathered = gathered_;
  if (&step != &plan_.steps.back()) return out;
  out.scattered = scattered_;
  if (output_mode_ == OutputMode::overwrite) return out;
  const ops::MatrixLayout& d = problem->d;
  out.epilogue.addend = {out.d, d.dtype, d.row_stride, d.col_stride, d.batch_stride};
  out.epilogue.may_round_sum = true;
  return out;
}

Result<std::size_t> DeviceLaunches::choose_product_plan(const PlanStep& step, const cuda::FusedCall& product,
                                                        const TuneOptions& tune) {
  if (const auto* gated = std::get_if<cuda::GatedCall>(&product)) {
    RIDGE_TRY(device, current_device_numbers());
    const auto plan = cuda::choose_plan(*gated, max_workspace_bytes, device);
    chosen_plans_.back() = plan;
    return plan.workspace_bytes;
  }
  const auto& call = std::get<cuda::MatmulCall>(product);
  if (call.row_walk().rows > 0) {
    RIDGE_TRY(device, current_device_numbers());
    const auto plan = cuda::choose_exchanged_rows_plan(call, max_workspace_bytes, device);
    if (!plan) return input_error("no kernel supports shared rows for this product");
    chosen_plans_.back() = *plan;
    return plan->workspace_bytes;
  }
  RIDGE_TRY(chosen, choose_matmul_plan(call, max_workspace_bytes, tune));
  chosen_plans_.back() = chosen.plan;
  if (chosen.tuned) tuned_.emplace_back(step.group, *chosen.tuned);
  return chosen.plan.workspace_bytes;
}

Status DeviceLaunches::choose_step_plan(const PlanStep& step, const BufferAddresses& addresses,
                                        const TuneOptions& tune) {
  std::visit(
      [&](const auto& kernel) {
        if constexpr (requires { cuda::workspace_bytes(kernel); })
          workspace_bytes_ = std::max(workspace_bytes_, cuda::workspace_bytes(kernel));
      },
      step.kernel);
  const auto choose_attention = [&](const auto* problem) -> Status {
    if (problem == nullptr) return Done{};
    RIDGE_TRY(device, current_device_numbers());
    const auto chosen = cuda::choose_plan(*problem, device);
    workspace_bytes_ = std::max(workspace_bytes_, device::counter_bytes + chosen.workspace_bytes);
    chosen_plans_.back() = chosen;
    return Done{};
  };
  RIDGE_TRY_STATUS(choose_attention(std::get_if<ops::AttentionProblem>(&step.kernel)));
  RIDGE_TRY_STATUS(choose_attention(std::get_if<ops::AttentionBackwardProblem>(&step.kernel)));
  const auto product = make_product_call(step, addresses);
  if (!product) return Done{};
  RIDGE_TRY(bytes, choose_product_plan(step, *product, tune));
  workspace_bytes_ = std::max(workspace_bytes_, bytes);
  return Done{};
}

namespace {

cuda::AttentionCall make_attention_call(const ops::AttentionProblem& problem, const std::vector<void*>& data) {
  float* const lse = data.size() > 4 ? static_cast<float*>(data[4]) : nullptr;
  const auto as_ints = [&](std::size_t i) { return data.size() > i ? static_cast<const int*>(data[i]) : nullptr; };
  return {problem, data[0], data[1], data[2], data[3], lse, as_ints(5), as_ints(6), as_ints(7), as_ints(8)};
}

}  // namespace

Status DeviceLaunches::queue_step(CUstream_st* stream, const PlanStep& step, const BufferAddresses& addresses,
                                  const device::DeviceWorkspace& workspace) const {
  const std::size_t index = &step - plan_.steps.data();
  if (const auto product = make_product_call(step, addresses))
    return std::visit(
        [&](const auto& call) {
          using Chosen = decltype(cuda::choose_plan(call, 0, std::declval<ops::DeviceNumbers>()));
          return cuda::launch(call, std::get<Chosen>(chosen_plans_[index]), workspace, stream);
        },
        *product);
  const std::vector<void*> data = step_addresses(step, addresses);
  return std::visit(
      [&](const auto& kernel) -> Status {
        using Kernel = std::decay_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, ops::ChainProgram>) {
          return cuda::run_chain_program(kernel, data, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::RowProblem>) {
          const ops::RowData rows{data[0], data[1], data[2], data.size() > 3 ? data[3] : nullptr};
          return cuda::launch_row_kernel(kernel, rows, workspace, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::RowProgram>) {
          return cuda::launch_row_kernel(kernel, data, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::ImageCopy>) {
          return cuda::copy_images(kernel, data[0], data[1], stream);
        } else if constexpr (std::is_same_v<Kernel, ops::RoutingProblem>) {
          return cuda::route_rows(kernel, data, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionProblem>) {
          return cuda::launch(make_attention_call(kernel, data), std::get<cuda::AttentionPlan>(chosen_plans_[index]),
                              workspace, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionBackwardProblem>) {
          const cuda::AttentionBackwardCall call{kernel,
                                                 {data[0], data[1], data[2], data[3], data[4],
                                                  static_cast<const float*>(data[5]), data[6], data[7], data[8]}};
          return cuda::launch(call, std::get<cuda::AttentionBackwardPlan>(chosen_plans_[index]), workspace, stream);
        } else if constexpr (std::is_same_v<Kernel, ops::ReduceProblem>) {
          return cuda::reduce(kernel, data[0], data[1], workspace, stream);
        } else if constexpr (requires { cuda::run_loops(kernel, data, workspace, stream); }) {
          return cuda::run_loops(kernel, data, workspace, stream);
        } else if constexpr (requires { cuda::run_loops(kernel, data, stream); }) {
          return cuda::run_loops(kernel, data, stream);
        } else {
          return input_error("no CUDA kernel supports this; --on cpu runs it");
        }
      },
      step.kernel);
}

Status DeviceLaunches::queue_steps(CUstream_st* stream, const BufferAddresses& addresses,
                                   const device::DeviceWorkspace& workspace, std::optional<int> group) const {
  for (const PlanStep& step : plan_.steps) {
    if (group && step.group != *group) continue;
    RIDGE_TRY_STATUS(queue_step(stream, step, addresses, workspace));
  }
  return Done{};
}

}  // namespace ridge
