// Compares the gradients of attention on a device with fp64 on the host (ops/attention/testing/backward_cases.h), with
// ordered and unordered adds; two runs with ordered adds must agree bit by bit.
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/attention/testing/backward_cases.h"
#include "ridge/run/device_machine.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::AttentionBackwardProblem;
using ops::testing::AttentionBackwardCase, ops::testing::AttentionBackwardCases, ops::testing::StoredElements;
using ops::testing::max_error_ratio, ops::testing::describe_problem;
namespace cuda = ops::cuda;

class DeviceArray {
 public:
  DeviceArray(const void* data, std::size_t bytes) : memory_(bytes) {
    check_cuda(cudaMemcpy(memory_.data(), data, bytes, cudaMemcpyHostToDevice), "copying to the device");
  }
  explicit DeviceArray(const StoredElements& x) : DeviceArray(x.data(), x.bytes()) {}
  void* data() const { return memory_.data(); }
  void copy_to(StoredElements& x) const {
    check_cuda(cudaMemcpy(x.data(), memory_.data(), x.bytes(), cudaMemcpyDeviceToHost), "copying back");
  }

 private:
  DeviceMemory memory_;
};

// Runs a case and copies its results back. Returns an error message, or an empty string.
std::string run_case(AttentionBackwardCase& x, const ops::DeviceNumbers& device) {
  const DeviceArray q(x.q), k(x.k), v(x.v), o(x.o), dout(x.dout), dq(x.dq_before), dk(x.dk_before), dv(x.dv_before),
      lse(x.lse.data(), x.lse.size() * 4);
  const cuda::AttentionBackwardPlan plan = cuda::choose_plan(x.problem, device);
  DeviceMemory memory(device::counter_bytes + plan.workspace_bytes);
  check_cuda(cudaMemset(memory.data(), 0xff, memory.size()), "poisoning the workspace");
  check_cuda(cudaMemset(memory.data(), 0, device::counter_bytes), "clearing counters");
  const cuda::AttentionBackwardCall call{x.problem,
                                         {q.data(), k.data(), v.data(), o.data(), dout.data(),
                                          static_cast<const float*>(lse.data()), dq.data(), dk.data(), dv.data()}};
  for (int again = 0; again < 2; ++again)  // each launch must leave the counters at zero
    if (const Status launched = cuda::launch(call, plan, {memory.data(), memory.size(), true}, nullptr); !launched)
      return launched.error().message;
  check_cuda(cudaDeviceSynchronize(), describe_problem(x.problem.forward).c_str());
  dq.copy_to(x.dq);
  dk.copy_to(x.dk);
  dv.copy_to(x.dv);
  return {};
}

bool equal_bits(const StoredElements& a, const StoredElements& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a.has_same_bits(i, b)) return false;
  return true;
}

}  // namespace

int check_attention_backward(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 200;
  const auto device = current_device_numbers();
  if (!device) {
    std::fprintf(stderr, "%s", device.error().to_string().c_str());
    return 77;
  }
  double worst = 0;
  int wrong = 0, refused = 0;
  const int first = argc > 1 ? std::atoi(argv[1]) : 0;
  for (int i = first; i < first + cases; ++i) {
    AttentionBackwardCase x = AttentionBackwardCases(static_cast<unsigned>(i), {DType::bf16, DType::f16}).next_case(8);
    x.problem.ordered = i % 2 == 1;
    const auto& p = x.problem.forward;
    if (cuda::unsupported_reason(x.problem)) {
      ++refused;
      continue;
    }
    if (const std::string failure = run_case(x, *device); !failure.empty()) {
      std::fprintf(stderr, "%s: %s\n", describe_problem(p).c_str(), failure.c_str());
      return 2;
    }
    // The weights and dS are each rounded once, and dS uses the rounded weights; f16 has no values below 2^-24.
    const bool is_bf16 = p.dtype == DType::bf16;
    const double weight_rounding = is_bf16 ? 0x1p-8 : 0x1p-11;
    double error_ratio = max_error_ratio(x, {2 * weight_rounding, weight_rounding, is_bf16 ? 0 : 0x1p-24});
    if (x.problem.ordered) {
      AttentionBackwardCase again = x;
      if (const std::string failure = run_case(again, *device); !failure.empty()) return 2;
      if (!equal_bits(x.dq, again.dq) || !equal_bits(x.dk, again.dk) || !equal_bits(x.dv, again.dv))
        error_ratio = 4e30;  // not deterministic
    }
    worst = std::max(worst, error_ratio);
    if (error_ratio <= 1) continue;
    if (++wrong > 5) continue;
    std::fprintf(stderr, "case %d, %s, %s: %g of the allowed error\n", i, describe_problem(p).c_str(),
                 x.problem.ordered ? "ordered" : "unordered", error_ratio);
  }
  std::printf("attention backward: %d cases, %d refused, %d wrong, at most %.2f of the allowed error\n", cases, refused,
              wrong, worst);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
