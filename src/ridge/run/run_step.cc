#include "ridge/run/run_step.h"

#include "ridge/ops/attention/cpu.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/routing/cpu.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/ops/rows/program.h"

namespace ridge {

namespace {

// Runs a kernel on buffers whose order is that of PlanStep::buffers.
struct KernelRunner {
  std::span<void* const> data;
  int threads;

  template <class T> T* optional_buffer(std::size_t i) const {
    return data.size() > i ? static_cast<T*>(data[i]) : nullptr;
  }
  void operator()(const ops::MatmulProblem& x) const {
    const auto* const starts = x.grouped ? static_cast<const std::int32_t*>(data[3]) : nullptr;
    ops::matmul({.problem = x, .a = data[0], .b = data[1], .d = data[2], .starts = starts}, threads);
  }
  void operator()(const ops::FusedMatmul& x) const {
    ops::matmul(x, data[0], data[1], data[2], data.subspan(3), threads);
  }
  void operator()(const ops::RowProblem& x) const {
    ops::run_row_function(x, {data[0], data[1], data[2], optional_buffer<void>(3)}, threads);
  }
  void operator()(const ops::RowBlockProgram& x) const { ops::run_row_blocks(x, data, threads); }
  void operator()(const ops::ReduceProblem& x) const { ops::reduce(x, data[0], data[1], threads); }
  void operator()(const ops::AttentionProblem& x) const {
    ops::attention(x,
                   {data[0], data[1], data[2], data[3], optional_buffer<float>(4), optional_buffer<const int>(5),
                    optional_buffer<const int>(6), optional_buffer<const int>(7), optional_buffer<const int>(8)},
                   threads);
  }
  void operator()(const ops::AttentionBackwardProblem& x) const {
    const auto* const lse = static_cast<const float*>(data[5]);
    ops::attention_backward(x, {data[0], data[1], data[2], data[3], data[4], lse, data[6], data[7], data[8]}, threads);
  }
  void operator()(const ops::RoutingProblem& x) const { ops::route_rows(x, data, threads); }
  void operator()(const ops::ChainProgram& x) const { ops::run_chain_program(x, data, threads); }
  void operator()(const ops::RowProgram& x) const { RIDGE_CHECK(false, ops::unsupported_reason(x).text()); }
  void operator()(const ops::ImageCopy& x) const { RIDGE_CHECK(false, ops::unsupported_reason(x).text()); }
  template <class Loops> void operator()(const Loops& x) const { ops::run_loops(x, data, threads); }
};

}  // namespace

void run_step(const PlanStep& step, std::span<void* const> data, int threads) {
  std::visit(KernelRunner{data, threads}, step.kernel);
}

Reason cpu_unsupported_reason(const PlanStep& step) {
  return std::visit([](const auto& kernel) { return ops::unsupported_reason(kernel); }, step.kernel);
}

}  // namespace ridge
