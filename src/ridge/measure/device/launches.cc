#include "ridge/measure/device/launches.h"

#include <algorithm>

#include "ridge/measure/device_machine.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::size_t most_workspace = ops::plan_workspace_bytes;

std::vector<void*> data_of(const Step& step, const std::vector<std::byte*>& places) {
  std::vector<void*> data;
  for (const int buffer : step.buffers) data.push_back(buffer < 0 ? nullptr : places[static_cast<std::size_t>(buffer)]);
  return data;
}

Status said(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

}  // namespace

std::optional<std::string> refuse_on_device(const Step& step) {
  return std::visit(
      [](const auto& kernel) -> std::optional<std::string> {
        if constexpr (requires { cuda::refuse(kernel); })
          return cuda::refuse(kernel);
        else
          return "no CUDA kernel supports this; --on cpu runs it";
      },
      step.kernel);
}

Result<DeviceLaunches> DeviceLaunches::make(Plan plan, const Places& places, const How& how) {
  if ((how.last == Last::added || how.scattered.rows > 0) &&
      (plan.steps.empty() || !std::holds_alternative<ops::MatmulProblem>(plan.steps.back().kernel)))
    return input_error("only a product can accumulate into its result");
  DeviceLaunches out(std::move(plan), how);
  if (how.gathered.rows > 0) {
    const auto first = out.plan_.steps.empty() ? std::nullopt : out.product_of(out.plan_.steps.front(), places);
    if (!first || !std::holds_alternative<cuda::MatmulCall>(*first))
      return input_error("gathered rows must be read by a product");
  }
  for (const Step& step : out.plan_.steps) {
    out.chosen_.emplace_back();
    const bool is_tuned = !how.group || step.group == *how.group;
    if (const Status chosen = out.choose(step, places, is_tuned ? how.tune : TuneOptions{}); !chosen)
      return chosen.error();
  }
  return out;
}

// Returns the call of a product with its epilogue, or nullopt for any other step.
std::optional<cuda::FusedCall> DeviceLaunches::product_of(const Step& step, const Places& places) const {
  const std::vector<void*> data = data_of(step, places);
  if (const auto* fused = std::get_if<ops::FusedMatmul>(&step.kernel)) {
    cuda::FusedCall out = cuda::fused_call(*fused, data);
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
  if (last_ == Last::stored) return out;
  const ops::MatrixLayout& d = problem->d;
  out.epilogue.addend = {out.d, d.dtype, d.row_stride, d.col_stride, d.batch_stride};
  out.epilogue.may_round_sum = true;
  return out;
}

Result<std::size_t> DeviceLaunches::choose_product(const Step& step, const cuda::FusedCall& product,
                                                   const TuneOptions& tune) {
  if (const auto* gated = std::get_if<cuda::GatedCall>(&product)) {
    const auto device = device_numbers_here();
    if (!device) return device.error();
    const auto plan = cuda::choose(*gated, most_workspace, *device);
    chosen_.back() = plan;
    return plan.workspace_bytes;
  }
  const auto& call = std::get<cuda::MatmulCall>(product);
  if (call.walk().rows > 0) {
    const auto device = device_numbers_here();
    if (!device) return device.error();
    const auto plan = cuda::choose_in_chunks(call, most_workspace, *device);
    if (!plan) return input_error("no kernel supports shared rows for this product");
    chosen_.back() = *plan;
    return plan->workspace_bytes;
  }
  const auto chosen = choose_plan(call, most_workspace, tune);
  if (!chosen) return chosen.error();
  chosen_.back() = chosen->plan;
  if (chosen->tuned) tuned_.emplace_back(step.group, *chosen->tuned);
  return chosen->plan.workspace_bytes;
}

Status DeviceLaunches::choose(const Step& step, const Places& places, const TuneOptions& tune) {
  if (const auto* rows = std::get_if<ops::RowProblem>(&step.kernel))
    workspace_bytes_ = std::max(workspace_bytes_, cuda::workspace_bytes(*rows));
  if (const auto* reduction = std::get_if<ops::ReduceProblem>(&step.kernel))
    workspace_bytes_ = std::max(workspace_bytes_, cuda::workspace_bytes(*reduction));
  const auto choose_attention = [&](const auto* problem) -> Status {
    if (problem == nullptr) return Done{};
    const auto device = device_numbers_here();
    if (!device) return device.error();
    const auto chosen = cuda::choose(*problem, *device);
    workspace_bytes_ = std::max(workspace_bytes_, cuda::counter_bytes + chosen.workspace_bytes);
    chosen_.back() = chosen;
    return Done{};
  };
  for (const Status& done : {choose_attention(std::get_if<ops::AttentionProblem>(&step.kernel)),
                             choose_attention(std::get_if<ops::AttentionBackwardProblem>(&step.kernel))})
    if (!done) return done;
  const auto product = product_of(step, places);
  if (!product) return Done{};
  const auto bytes = choose_product(step, *product, tune);
  if (!bytes) return bytes.error();
  workspace_bytes_ = std::max(workspace_bytes_, *bytes);
  return Done{};
}

Status DeviceLaunches::queue_step(CUstream_st* stream, const Step& step, const Places& places,
                                  const cuda::Workspace& workspace) const {
  const auto index = static_cast<std::size_t>(&step - plan_.steps.data());
  if (const auto product = product_of(step, places))
    return std::visit(
        [&](const auto& call) {
          using Chosen = decltype(cuda::choose(call, 0, std::declval<ops::DeviceNumbers>()));
          return said(cuda::launch(call, std::get<Chosen>(chosen_[index]), workspace, stream));
        },
        *product);
  const std::vector<void*> data = data_of(step, places);
  return std::visit(
      [&](const auto& kernel) -> Status {
        using Kernel = std::decay_t<decltype(kernel)>;
        if constexpr (std::is_same_v<Kernel, ops::ChainProgram>) {
          return said(cuda::chain(kernel, data, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::RowProblem>) {
          const ops::RowData rows{data[0], data[1], data[2], data.size() > 3 ? data[3] : nullptr};
          return said(cuda::rows(kernel, rows, workspace, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::RowProgram>) {
          return said(cuda::rows(kernel, data, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::RoutedRows>) {
          return said(cuda::routed_rows(kernel, data, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionProblem>) {
          float* const lse = data.size() > 4 ? static_cast<float*>(data[4]) : nullptr;
          const auto whole = [&](std::size_t i) {
            return data.size() > i ? static_cast<const int*>(data[i]) : nullptr;
          };
          const cuda::AttentionCall call{kernel, data[0],  data[1],  data[2],  data[3],
                                         lse,    whole(5), whole(6), whole(7), whole(8)};
          return said(cuda::launch(call, std::get<cuda::AttentionPlan>(chosen_[index]), workspace, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::AttentionBackwardProblem>) {
          const cuda::AttentionBackwardCall call{kernel,
                                                 {data[0], data[1], data[2], data[3], data[4],
                                                  static_cast<const float*>(data[5]), data[6], data[7], data[8]}};
          return said(cuda::launch(call, std::get<cuda::AttentionBackwardPlan>(chosen_[index]), workspace, stream));
        } else if constexpr (std::is_same_v<Kernel, ops::ReduceProblem>) {
          return said(cuda::reduce(kernel, data[0], data[1], workspace, stream));
        } else {
          return input_error("no CUDA kernel supports this; --on cpu runs it");
        }
      },
      step.kernel);
}

Status DeviceLaunches::queue(CUstream_st* stream, const Places& places, const cuda::Workspace& workspace,
                             std::optional<int> group) const {
  for (const Step& step : plan_.steps) {
    if (group && step.group != *group) continue;
    if (const Status queued = queue_step(stream, step, places, workspace); !queued) return queued;
  }
  return Done{};
}

}  // namespace ridge
