// Times grouped products: `grouped_times [GROUPS ROWS N K]` prints for each kernel that supports them the predicted
// time, the time for equal groups, and the time for uneven groups: each of 8 consecutive groups is half as long as the
// one before it. bf16, weights contiguous along k.
#include <algorithm>
#include <array>
#include <cmath>

#include "ridge/ops/product/describe.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/plan_timer.h"
#include "support.h"

namespace ridge::gpu {
namespace {

struct GroupedShape {
  int groups, rows, n, k;
};

std::vector<std::int32_t> make_group_starts(const GroupedShape& s, bool is_uniform) {
  std::vector<double> parts;
  double all = 0;
  for (int g = 0; g < s.groups; ++g) {
    parts.push_back(is_uniform ? 1 : std::exp2(-(g % 8)));
    all += parts.back();
  }
  std::vector<std::int32_t> out{0};
  double before = 0;
  for (const double part : parts) {
    before += part;
    out.push_back(static_cast<std::int32_t>(std::lround(s.rows * before / all)));
  }
  return out;
}

int time_shape(const GroupedShape& s, const ops::DeviceNumbers& device) {
  using namespace ops;
  const auto place = [](std::uintptr_t at) { return reinterpret_cast<void*>(at << 20); };  // placeholder addresses
  MatmulCall call{.problem = {s.groups,
                              s.rows,
                              s.n,
                              s.k,
                              {DType::bf16, s.k, 1},
                              {DType::bf16, 1, s.k, std::int64_t{s.n} * s.k},
                              {DType::bf16, s.n, 1},
                              true},
                  .a = place(1),
                  .b = place(2),
                  .d = place(3)};
  const DeviceMemory starts(static_cast<std::size_t>(s.groups + 1) * 4);
  call.starts = reinterpret_cast<const std::int32_t*>(starts.data());
  const std::vector<cuda::MatmulPlan> plans = cuda::list_candidates(call, plan_workspace_bytes, device, 1);
  std::vector<double> seconds[2];
  for (const bool is_uniform : {true, false}) {
    const std::vector<std::int32_t> begin = make_group_starts(s, is_uniform);
    check_cuda(cudaMemcpy(starts.data(), begin.data(), begin.size() * 4, cudaMemcpyHostToDevice),
               "copying the group starts");
    PlanTimer timer(call);
    const auto measured = timer.measure_plans(plans, 9);
    if (!measured) {
      std::printf("%s", measured.error().to_string().c_str());
      return 1;
    }
    seconds[is_uniform ? 0 : 1] = *measured;
  }
  const double flop = 2.0 * s.rows * s.n * s.k;
  for (std::size_t i = 0; i < plans.size(); ++i)
    std::printf("%d,%d,%d,%d,%s,%.2f,%.2f,%.1f,%.2f,%.1f\n", s.groups, s.rows, s.n, s.k,
                cuda::plan_name(plans[i]).c_str(), plans[i].predicted_s * 1e6, seconds[0][i] * 1e6,
                flop / seconds[0][i] * 1e-12, seconds[1][i] * 1e6, flop / seconds[1][i] * 1e-12);
  return 0;
}

}  // namespace

int time_grouped(int argc, char** argv) {
  const auto device = current_device_numbers();
  if (!device) return 1;
  std::vector<GroupedShape> shapes{{4, 32768, 4096, 7168},  {4, 32768, 7168, 2048},  {8, 32768, 4096, 7168},
                                   {8, 4096, 4096, 7168},   {64, 16384, 2048, 2048}, {256, 8192, 4096, 7168},
                                   {256, 2048, 4096, 7168}, {64, 512, 2048, 7168},   {8, 64, 14336, 4096}};
  if (argc >= 4) shapes = {{std::atoi(argv[0]), std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3])}};
  std::printf("groups,rows,n,k,kernel,predicted_us,alike_us,alike_tflops,uneven_us,uneven_tflops\n");
  for (const GroupedShape& s : shapes)
    if (const int code = time_shape(s, *device); code != 0) return code;
  return 0;
}

}  // namespace ridge::gpu
