// Checks and times row functions and their gradients on a device: `rows` compares random cases with f64 on the host;
// `rows_times [FUNCTION ...]` times functions, by default all, and a copy that moves as many bytes.
#include <algorithm>
#include <memory>
#include <string>

#include "../rows/cases.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/ops/rows/model.h"
#include "support.h"
#include "values.h"

namespace ridge::gpu {
namespace {

using ops::RowFunction, ops::RowProblem;
using random_rows::row_function_names;

Status run_case(const random_rows::Case& c, random_rows::Data& d) {
  const std::size_t bytes = c.sum ? ops::cuda::workspace_bytes(*c.sum) : ops::cuda::workspace_bytes(c.p);
  std::vector<std::unique_ptr<DeviceMemory>> places;
  std::vector<void*> at;
  for (random_rows::Elements* each : {&d.x, &d.y, &d.weight, &d.dy}) {
    places.push_back(std::make_unique<DeviceMemory>(each->bytes().size() + 16));
    at.push_back(places.back()->data() + each->off_bytes());
    check_cuda(cudaMemcpy(places.back()->data(), each->bytes().data(), each->bytes().size(), cudaMemcpyHostToDevice),
               "copying there");
  }
  const DeviceMemory room(bytes + 1);
  const device::DeviceWorkspace workspace{room.data(), bytes};
  const ops::RowData data{at[0], c.weighted ? at[2] : nullptr, at[1], at[3]};
  RIDGE_TRY_STATUS(c.sum ? ops::cuda::reduce(*c.sum, at[0], at[1], workspace, nullptr)
                         : ops::cuda::launch_row_kernel(c.p, data, workspace, nullptr));
  check_cuda(cudaDeviceSynchronize(), random_rows::text(c).c_str());
  check_cuda(cudaMemcpy(d.y.bytes().data(), places[1]->data(), d.y.bytes().size(), cudaMemcpyDeviceToHost),
             "copying back");
  return Done{};
}

__global__ void fill_random(ElementFormat format, void* data, std::int64_t count) {
  for (std::int64_t i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256)
    write_element(format, data, i, random_value(ValueKind::normal, static_cast<std::uint64_t>(i), 7));
}

// Measures the time of `work`, in microseconds, after other data have filled the L2.
class ColdL2Timer {
 public:
  ColdL2Timer() : other_(std::size_t{256} << 20) {
    for (cudaEvent_t* event : {&begin_, &end_}) check_cuda(cudaEventCreate(event), "creating an event");
  }
  template <class F> double measure_us(F work) {
    check_cuda(cudaMemsetAsync(other_.data(), 1, other_.size(), nullptr), "flushing the L2");
    check_cuda(cudaEventRecord(begin_, nullptr), "recording");
    work();
    check_cuda(cudaEventRecord(end_, nullptr), "recording");
    check_cuda(cudaEventSynchronize(end_), "a timed kernel");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "reading the clock");
    return 1e3 * ms;
  }

 private:
  DeviceMemory other_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

constexpr std::int64_t timed_elements = std::int64_t{1} << 26;

// Prints the times of a function and of a copy that reads and writes half of the function's bytes each.
void time_row_function(const RowProblem& p, const ops::RowData& data, const DeviceMemory& x, const DeviceMemory& y,
                       ColdL2Timer& clock) {
  const DeviceMemory room(ops::cuda::workspace_bytes(p) + 1);
  const auto bytes = static_cast<std::size_t>(ops::traffic_bytes(p) / 2);
  const auto run = [&] {
    const Status launched = ops::cuda::launch_row_kernel(p, data, {room.data(), room.size()}, nullptr);
    if (!launched) {
      std::fprintf(stderr, "%s\n", launched.error().message.c_str());
      std::exit(2);
    }
  };
  const auto copy = [&] {
    check_cuda(cudaMemcpyAsync(y.data(), x.data(), bytes, cudaMemcpyDeviceToDevice, nullptr), "copying");
  };
  std::vector<double> ours, copies;
  for (int i = 0; i < 25; ++i) {
    const double copied = clock.measure_us(copy), ran = clock.measure_us(run);
    if (i < 4) continue;
    copies.push_back(copied);
    ours.push_back(ran);
  }
  std::printf("%s,%s,%lld,%.1f,%.1f,%.3f\n", row_function_names[static_cast<int>(p.function)],
              std::string(dtype_name(p.x.dtype)).c_str(), static_cast<long long>(p.columns), median(ours),
              median(copies), median(copies) / median(ours));
}

}  // namespace

int check_rows(int argc, char** argv) {
  const auto refuse = [](const random_rows::Case& c) {
    if (c.sum) return ops::cuda::unsupported_reason(*c.sum);
    const auto why = ops::cuda::unsupported_reason(c.p);
    return !why && c.p.function > RowFunction::layernorm ? device::generation_unavailable_reason() : why;
  };
  return random_rows::check(argc, argv, {false, refuse, run_case});
}

int time_rows(int argc, char** argv) {
  const DeviceMemory x(timed_elements * 8), y(timed_elements * 8), weight(std::size_t{131072} * 4);
  const ops::RowData data{x.data(), weight.data(), y.data(), x.data() + timed_elements * 4};
  ColdL2Timer clock;
  std::printf("function,dtype,columns,us,copy_us,of_copy\n");
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (char* const each : {x.data(), x.data() + timed_elements * 4})
      fill_random<<<1024, 256>>>(element_format(dtype), each, timed_elements);
    fill_random<<<64, 256>>>(element_format(dtype), weight.data(), 131072);
    for (const RowFunction function : ops::row_functions) {
      const char* const called = row_function_names[static_cast<int>(function)];
      if (argc > 0 && std::none_of(argv, argv + argc, [&](const std::string& each) { return each == called; }))
        continue;
      for (const std::int64_t columns : {1024, 4096, 8192, 16384, 20001, 32768, 65536, 131072}) {
        RowProblem p{function, timed_elements / columns, columns, {dtype, columns}, {dtype, columns}};
        p.weight_dtype = dtype;
        if (is_gradient(function)) p.dy = p.x;
        if (function == RowFunction::log_sum_exp) p.y = {DType::f32, 1};
        if (ops::cuda::unsupported_reason(p)) continue;
        time_row_function(p, data, x, y, clock);
      }
    }
  }
  return 0;
}

}  // namespace ridge::gpu
