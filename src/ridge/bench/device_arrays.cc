#include "ridge/bench/device_arrays.h"

#include <algorithm>

#include "ridge/device/peak.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/run/memory.h"

namespace ridge {

void describe_device(Comparison& comparison, const device::DeviceProperties& properties) {
  comparison.device = properties.name;
  comparison.driver = properties.driver;
}

Result<RecordedWork> record_work(const device::Queue& queue, std::int64_t repetitions,
                                 const std::function<Status(std::int64_t)>& work) {
  RIDGE_TRY(graph, queue.record_graph([&]() -> Status {
    for (std::int64_t i = 0; i < repetitions; ++i) RIDGE_TRY_STATUS(work(i));
    return Done{};
  }));
  return RecordedWork{std::move(graph), repetitions};
}

Result<double> time_work(const device::Queue& queue, const RecordedWork& recorded) {
  RIDGE_TRY(seconds, queue.measure_seconds([&] { return queue.launch_graph(recorded.graph); }));
  return seconds / static_cast<double>(recorded.repetitions);
}

Result<DeviceArrays> DeviceArrays::make(DType dtype, std::int64_t elements, std::size_t count, std::size_t inputs,
                                        std::uint32_t seed) {
  RIDGE_TRY(queue, device::Queue::create());
  DeviceArrays out(std::move(queue), dtype, elements);
  for (std::size_t i = 0; i < count; ++i) {
    RIDGE_TRY(memory, device::DeviceBuffer::allocate(out.bytes()));
    out.arrays_.push_back(std::move(memory));
    RIDGE_TRY_STATUS(i < inputs ? out.queue_.fill_normal(out.arrays_[i].data(), dtype, elements,
                                                         seed + static_cast<std::uint32_t>(i))
                                : out.poison(i));
  }
  return Result<DeviceArrays>(std::move(out));
}

Result<std::vector<double>> DeviceArrays::read_values(std::size_t array, std::int64_t first, std::int64_t count) const {
  const std::int64_t size = dtype_bits(dtype_) / 8;
  std::vector<std::byte> raw(count * size);
  RIDGE_TRY_STATUS(queue_.copy(raw.data(), arrays_[array].data() + first * size, count * size));
  RIDGE_TRY_STATUS(queue_.synchronize());
  const Array view{dtype_, count, raw.data()};
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(read_element(view, i));
  return out;
}

Status DeviceArrays::launch_kernel(const KernelStep& step) const {
  const VectorKernel& kernel = step.kernel;
  std::byte *const x = arrays_[step.from].data(), *const y = arrays_[step.to].data();
  if (kernel.columns != 0)
    return ops::cuda::launch_row_kernel(kernel.row_problem(elements_), {x, nullptr, y}, {}, queue_.stream());
  std::vector<void*> tensors{x, y};
  if (kernel.has_gate) tensors.insert(tensors.begin() + 1, arrays_[1].data());
  return ops::cuda::run_chain_program(kernel.chain_program(elements_), tensors, queue_.stream());
}

Status DeviceArrays::launch_copy(std::int64_t total) const {
  for (std::int64_t done = 0; done < total; done += bytes()) {
    const device::StreamedBuffers x{arrays_.back().data(), arrays_[0].data(), std::min(bytes(), total - done)};
    RIDGE_TRY_STATUS(device::launch_copy(x, 4 * device::multiprocessor_count(), queue_.stream()));
  }
  return Done{};
}

Result<double> DeviceArrays::time_steps(const std::vector<KernelStep>& steps) const {
  constexpr std::int64_t min_launches = 4;
  const auto launch_all = [&](std::int64_t) -> Status {
    for (const KernelStep& step : steps) RIDGE_TRY_STATUS(launch_kernel(step));
    return Done{};
  };
  const auto repetitions = std::max<std::int64_t>(1, min_launches / static_cast<std::int64_t>(steps.size()));
  RIDGE_TRY(recorded, record_work(queue_, repetitions, launch_all));
  return time_work(queue_, recorded);
}

}  // namespace ridge
