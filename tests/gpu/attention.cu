// Attention on a device against fp64 on the host (ops/attention/testing/cases.h).
#include "ridge/measure/device_machine.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/attention/testing/cases.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::AttentionProblem, ops::testing::AttentionCase, ops::testing::AttentionCases, ops::testing::StoredElements;
using ops::testing::max_error_ratio, ops::testing::describe_problem;
namespace cuda = ops::cuda;

struct OnDevice {
  explicit OnDevice(const StoredElements& x) : memory(x.bytes()) {
    must(cudaMemcpy(memory.data(), x.data(), x.bytes(), cudaMemcpyHostToDevice), "copying to the device");
  }
  Memory memory;
};

struct Numbers {
  explicit Numbers(const std::vector<int>& x) : memory(x.size() * 4 + 4), is_there(!x.empty()) {
    must(cudaMemcpy(memory.data(), x.data(), x.size() * 4, cudaMemcpyHostToDevice), "copying to the device");
  }
  const int* data() const { return is_there ? reinterpret_cast<const int*>(memory.data()) : nullptr; }
  Memory memory;
  bool is_there;
};

// Runs a case. Returns why it could not run, or an empty string.
std::string run(AttentionCase& x, const ops::DeviceNumbers& device, const device::DeviceWorkspace& workspace) {
  const OnDevice q(x.q), k(x.k), v(x.v), o(x.o);
  const Memory lse(x.lse.size() * 4);
  must(cudaMemcpy(lse.data(), x.lse.data(), x.lse.size() * 4, cudaMemcpyHostToDevice), "copying to the device");
  const Numbers lengths(x.lengths), row_starts(x.row_starts), key_starts(x.key_starts), pages(x.pages);
  const cuda::AttentionCall call{x.problem,       q.memory.data(),   k.memory.data(),
                                 v.memory.data(), o.memory.data(),   reinterpret_cast<float*>(lse.data()),
                                 lengths.data(),  row_starts.data(), key_starts.data(),
                                 pages.data()};
  const cuda::AttentionPlan plan = cuda::choose_plan(x.problem, device);
  if (auto trouble = cuda::launch(call, plan, workspace, nullptr)) return *trouble;
  must(cudaDeviceSynchronize(), describe_problem(x.problem).c_str());
  must(cudaMemcpy(x.o.data(), o.memory.data(), x.o.bytes(), cudaMemcpyDeviceToHost), "copying back");
  must(cudaMemcpy(x.lse.data(), lse.data(), x.lse.size() * 4, cudaMemcpyDeviceToHost), "copying back");
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
  Memory memory(ops::plan_workspace_bytes / 4);
  must(cudaMemset(memory.data(), 0, device::counter_bytes), "clearing counters");
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
    if (const std::string trouble = run(x, *device, workspace); !trouble.empty()) {
      std::fprintf(stderr, "%s: %s\n", describe_problem(p).c_str(), trouble.c_str());
      return 2;
    }
    const cuda::AttentionPlan plan = cuda::choose_plan(p, *device);
    ragged += plan.is_ragged ? 1 : 0;
    grouped += plan.group > 1 ? 1 : 0;
    packed += p.packed ? 1 : 0;
    in_pages += p.pages ? 1 : 0;
    in_parts += plan.is_ragged && plan.parts > 1 ? 1 : 0;
    const double unit = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11, off = max_error_ratio(x, 2 * unit, unit);
    worst = std::max(worst, off);
    if (off <= 1) continue;
    if (++wrong > 5) continue;
    std::fprintf(stderr, "case %d, %s, config %d, %d parts, groups of %d: %g of the allowed error\n", i,
                 describe_problem(p).c_str(), plan.config, plan.parts, plan.group, off);
  }
  std::printf(
      "attention: %d cases, %d refused, %d wrong, at most %.2f of the allowed error; %d ragged, %d of these in "
      "groups, %d in parts, %d packed, %d in pages\n",
      cases, refused, wrong, worst, ragged, grouped, in_parts, packed, in_pages);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
