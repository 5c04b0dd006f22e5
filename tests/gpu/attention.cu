// Compares attention on a device with fp64 on the host (ops/attention/testing/cases.h).
#include "guarded_memory.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/attention/testing/cases.h"
#include "ridge/run/device_machine.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::AttentionProblem, ops::testing::AttentionCase, ops::testing::AttentionCases, ops::testing::StoredElements;
using ops::testing::max_error_ratio, ops::testing::describe_problem;
namespace cuda = ops::cuda;

struct DeviceArray {
  DeviceArray(const StoredElements& x, GuardedMemory::Side side) : memory(x.bytes(), side) {
    check_cuda(cudaMemcpy(memory.data(), x.data(), x.bytes(), cudaMemcpyHostToDevice), "copying to the device");
  }
  GuardedMemory memory;
};

struct DeviceInts {
  explicit DeviceInts(const std::vector<int>& x) : memory(x.size() * 4 + 4), not_empty(!x.empty()) {
    check_cuda(cudaMemcpy(memory.data(), x.data(), x.size() * 4, cudaMemcpyHostToDevice), "copying to the device");
  }
  const int* data() const { return not_empty ? reinterpret_cast<const int*>(memory.data()) : nullptr; }
  DeviceMemory memory;
  bool not_empty;
};

// Runs a case and copies its results back; unmapped memory is on this side of every operand. Returns an error message,
// or an empty string.
std::string run_case(AttentionCase& x, GuardedMemory::Side side, const ops::DeviceNumbers& device,
                     const device::DeviceWorkspace& workspace) {
  const DeviceArray q(x.q, side), k(x.k, side), v(x.v, side), o(x.o, side);
  const DeviceMemory lse(x.lse.size() * 4);
  check_cuda(cudaMemcpy(lse.data(), x.lse.data(), x.lse.size() * 4, cudaMemcpyHostToDevice), "copying to the device");
  const DeviceInts lengths(x.lengths), row_starts(x.row_starts), key_starts(x.key_starts), pages(x.pages);
  const cuda::AttentionCall call{x.problem,       q.memory.data(),   k.memory.data(),
                                 v.memory.data(), o.memory.data(),   reinterpret_cast<float*>(lse.data()),
                                 lengths.data(),  row_starts.data(), key_starts.data(),
                                 pages.data()};
  const cuda::AttentionPlan plan = cuda::choose_plan(x.problem, device);
  if (const Status launched = cuda::launch(call, plan, workspace, nullptr); !launched) return launched.error().message;
  check_cuda(cudaDeviceSynchronize(), describe_problem(x.problem).c_str());
  check_cuda(cudaMemcpy(x.o.data(), o.memory.data(), x.o.bytes(), cudaMemcpyDeviceToHost), "copying back");
  check_cuda(cudaMemcpy(x.lse.data(), lse.data(), x.lse.size() * 4, cudaMemcpyDeviceToHost), "copying back");
  return {};
}

}  // namespace

int check_attention(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 200, first = argc > 1 ? std::atoi(argv[1]) : 0;
  const auto device = current_device_numbers();
  if (!device) {
    std::fprintf(stderr, "%s", device.error().to_string().c_str());
    return 77;
  }
  DeviceMemory memory(ops::plan_workspace_bytes / 4);
  check_cuda(cudaMemset(memory.data(), 0, device::counter_bytes), "clearing counters");
  const device::DeviceWorkspace workspace{memory.data(), memory.size(), true};
  double worst = 0;
  int wrong = 0, refused = 0, ragged = 0, grouped = 0, in_parts = 0, packed = 0, in_pages = 0;
  for (int i = first; i < first + cases; ++i) {
    AttentionCase x = AttentionCases(static_cast<unsigned>(i), {DType::bf16, DType::f16}).next_case(8);
    const AttentionProblem& p = x.problem;
    if (cuda::unsupported_reason(p)) {
      ++refused;
      continue;
    }
    const auto side = i % 2 == 0 ? GuardedMemory::Side::before : GuardedMemory::Side::after;
    if (const std::string failure = run_case(x, side, *device, workspace); !failure.empty()) {
      std::fprintf(stderr, "%s: %s\n", describe_problem(p).c_str(), failure.c_str());
      return 2;
    }
    const cuda::AttentionPlan plan = cuda::choose_plan(p, *device);
    ragged += plan.is_ragged ? 1 : 0;
    grouped += plan.heads_per_tile > 1 ? 1 : 0;
    packed += p.packed ? 1 : 0;
    in_pages += p.pages ? 1 : 0;
    in_parts += plan.is_ragged && plan.key_splits > 1 ? 1 : 0;
    const double weight_rounding = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11,
                 error_ratio = max_error_ratio(x, 2 * weight_rounding, weight_rounding);
    worst = std::max(worst, error_ratio);
    if (error_ratio <= 1) continue;
    if (++wrong > 5) continue;
    std::fprintf(stderr, "case %d, %s, config %d, %d parts, groups of %d: %g of the allowed error\n", i,
                 describe_problem(p).c_str(), plan.config, plan.key_splits, plan.heads_per_tile, error_ratio);
  }
  std::printf(
      "attention: %d cases, %d refused, %d wrong, at most %.2f of the allowed error; %d ragged, %d of these in "
      "groups, %d in parts, %d packed, %d in pages\n",
      cases, refused, wrong, worst, ragged, grouped, in_parts, packed, in_pages);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
