#include "ridge/base/product_size.h"
#include "ridge/measure/calibrate.h"

#include <fmt/format.h>

#include "ridge/measure/run.h"
#include "ridge/plan/predict.h"

namespace ridge {
namespace {

// No two products share n and k, and no two other cases share their bytes, so each case is its own site.
constexpr ProductSize product_sizes[] = {
    {64, 64, 64},     {256, 256, 255},  {512, 512, 512},  {1024, 1024, 1000}, {33, 1000, 777}, {128, 4096, 512},
    {2048, 256, 999}, {300, 3000, 300}, {16, 2048, 2048}, {8, 1024, 4096},    {96, 96, 6000},  {1500, 48, 1500},
    {777, 1555, 333}, {2000, 2000, 16}, {4, 4096, 2047},  {1200, 1200, 64},   {64, 512, 8000}, {400, 640, 2560},
    {3, 3000, 3001},  {700, 900, 1100}, {1, 1024, 1024},  {1, 4096, 1023},    {1, 4096, 4096}, {1, 8192, 4095},
    {1, 512, 511},    {1, 2048, 8192},  {1, 11008, 2049}, {1, 3000, 1001},    {1, 256, 4000},  {1, 1500, 5000}};
constexpr ProductSize grid_sizes[] = {{16, 500, 0},    {64, 256, 0},   {100, 2000, 0},  {512, 1024, 0},
                                      {1000, 3000, 0}, {2048, 999, 0}, {4096, 2048, 0}, {300, 20000, 0},
                                      {8000, 700, 0},  {5000, 5000, 0}};
constexpr const char* product_program = "x: f32[M, K]   w: f32[N, K]\ny: f32[M, N] = x * w\n";
// Each program runs on every second grid.
constexpr const char* stream_programs[] = {"x: f32[M, N]   z: f32[M, N]\ny: f32[M, N] = x * 2 + z\n",
                                           "x: f32[M, N]   b: f32[N]\ny: f32[M, N] = relu(x + b)\n",
                                           "x: f32[M, N]\ny: f32[M, N] = gelu(x)\n",
                                           "x: f32[M, N]   g: f32[N]\ny: f32[M, N] = rmsnorm(x over N) * g\n",
                                           "x: f32[M, N]\ny: f32[M, N] = softmax(x over N)\n",
                                           "x: f32[M, N]\ny: f32[M] = sum(x over N)\n"};

struct CpuCase {
  const char* text;
  ProductSize sizes;
};
std::vector<CpuCase> list_cases() {
  std::vector<CpuCase> out;
  for (const ProductSize& sizes : product_sizes) out.push_back({product_program, sizes});
  for (std::size_t s = 0; s < std::size(stream_programs); ++s)
    for (std::size_t g = s % 2; g < std::size(grid_sizes); g += 2) out.push_back({stream_programs[s], grid_sizes[g]});
  return out;
}

// Times the plan's kernel. Returns nullopt inside the result if the plan has several kernels.
Result<std::optional<TimedKernel>> time_case(const CpuCase& cpu_case, const Machine& machine) {
  RIDGE_TRY(program, parse(cpu_case.text));
  Bindings dims{{"M", cpu_case.sizes.m}, {"N", cpu_case.sizes.n}};
  if (cpu_case.sizes.k > 0) dims["K"] = cpu_case.sizes.k;
  RIDGE_TRY(explanation, explain(program, machine, dims, {}, Thresholds::skipped));
  RIDGE_TRY(planned, predict_program(program, explanation));
  if (planned.kernels.size() != 1) return std::optional<TimedKernel>();
  RIDGE_TRY(measured, run_program(program, explanation, {}));
  return std::optional(TimedKernel{planned.kernels.front().cpu_formula_inputs, measured.ops.front().time.min});
}

}  // namespace

Result<LibraryTimings> time_cpu_kernels(const Machine& machine,
                                        const std::function<void(double, const std::string&)>& progress) {
  LibraryTimings out{.formula = &ops::cpu_formula(), .kernels = {}};
  const std::vector<CpuCase> all = list_cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (progress) progress(static_cast<double>(i) / static_cast<double>(all.size()), all[i].text);
    RIDGE_TRY(one, time_case(all[i], machine));
    if (one) out.kernels.push_back(*std::move(one));
  }
  return out;
}

}  // namespace ridge
