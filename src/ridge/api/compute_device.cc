// Programs on arrays in device memory: planned as by `ridge run --on cuda`, and queued on the caller's stream with the
// caller's scratch memory.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <numeric>

#include "ridge/api/computation.h"
#include "ridge/api/device_guard.h"
#include "ridge/api/views.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/stream.h"
#include "ridge/plan/plan.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

using api::BufferLocation;
using Impl = Computation::Impl;

constexpr std::int64_t scratch_alignment = 256;  // Bytes, of buffers in the scratch memory
constexpr std::int64_t array_alignment = 16;     // Bytes; kernels access arrays in vectors of this size

bool is_aligned(const void* data, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(alignment) == 0;
}

// Returns index values in device memory. They are never freed, because a graph may have captured their address.
Result<std::byte*> index_values_on(int device, const std::vector<float>& values) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::pair<int, std::vector<float>>, device::DeviceBuffer>;  // Intentionally leaked
  const std::lock_guard lock(mutex);
  const auto found = all.find({device, values});
  if (found != all.end()) return found->second.data();
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
  RIDGE_TRY(memory, device::DeviceBuffer::allocate(bytes));
  RIDGE_TRY(queue, device::Queue::create());
  RIDGE_TRY_STATUS(queue.copy(memory.data(), values.data(), bytes));
  RIDGE_TRY_STATUS(queue.synchronize());
  return all.emplace(std::pair(device, values), std::move(memory)).first->second.data();
}

// Returns placeholder addresses with the alignment of every call; choosing kernels needs only that.
std::vector<std::byte*> placeholder_addresses(const Impl& impl) {
  std::vector<std::byte*> out;
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 32);
  for (const BufferLocation& location : impl.locations)
    out.push_back(location.space == BufferLocation::Space::none ? nullptr : base + location.offset);
  return out;
}

std::byte* resolve_address(const api::DeviceComputation& device, const BufferLocation& location,
                           std::span<const ArrayView> inputs, std::span<const ArrayView> outputs, std::byte* scratch) {
  switch (location.space) {
    case BufferLocation::Space::none: break;
    case BufferLocation::Space::input: return static_cast<std::byte*>(inputs[location.index].data) + location.offset;
    case BufferLocation::Space::output: return static_cast<std::byte*>(outputs[location.index].data) + location.offset;
    case BufferLocation::Space::scratch: return scratch + device.workspace_bytes + location.offset;
    case BufferLocation::Space::indices: return device.index_values[location.index];
  }
  return nullptr;
}

Status check_device_operands(const Impl& impl, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs) {
  RIDGE_TRY_STATUS(api::check_operands(impl, inputs, outputs));
  for (std::size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
    const bool is_input = i < inputs.size();
    const ArrayView& view = is_input ? inputs[i] : outputs[i - inputs.size()];
    if (Computation::can_queue(view)) continue;
    const std::string& name = is_input ? impl.inputs[i].name : impl.outputs[i - inputs.size()].name;
    return input_error(
        fmt::format("expected '{}' to be row-major, without gaps, at a multiple of {} bytes of the device's memory",
                    name, array_alignment));
  }
  return Done{};
}

}  // namespace

Status api::plan_on_device(Impl& impl, const FuseOptions& fuse_options, int device) {
  const device::RelaxedCaptureGuard capture_guard;
  const DeviceGuard device_guard(device);
  if (!device_guard.status()) return device_guard.status();
  RIDGE_TRY(numbers, current_device_numbers());
  FuseOptions options = fuse_options;
  options.generate_kernels = !device::generation_unavailable_reason();
  RIDGE_TRY(planned, plan_fastest_fusion(impl.program, impl.dims, options, numbers));
  impl.plan = std::move(planned);
  if (Status supported = check_kernels(impl, device_unsupported_reason); !supported) {
    Error error = supported.error();
    error.hint = "move the arrays to host memory: the CPU runs this program";
    return error;
  }
  place_buffers(impl, {.scratch_alignment = scratch_alignment, .input_alignment = array_alignment});
  std::vector<std::byte*> index_addresses;
  for (const std::vector<float>& each : impl.index_values) {
    RIDGE_TRY(address, index_values_on(device, each));
    index_addresses.push_back(address);
  }
  RIDGE_TRY(launches,
            DeviceLaunches::make(std::move(impl.plan), placeholder_addresses(impl), {.tune = {.use_stored = true}}));
  const auto workspace = (static_cast<std::int64_t>(launches.workspace_bytes()) + scratch_alignment - 1) /
                         scratch_alignment * scratch_alignment;
  impl.scratch_bytes += workspace;
  impl.device = DeviceComputation{device, std::move(launches), workspace, std::move(index_addresses)};
  return Done{};
}

bool Computation::can_queue(const ArrayView& array) {
  return api::is_row_major(array) && is_aligned(array.data, array_alignment);
}

Status Computation::queue(CUstream_st* stream, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                          void* scratch) const {
  if (!impl_->device)
    return input_error("the program was planned for arrays in host memory; expected a device in the request");
  RIDGE_TRY_STATUS(check_device_operands(*impl_, inputs, outputs));
  const api::DeviceComputation& device = *impl_->device;
  auto* const given = static_cast<std::byte*>(scratch);
  if (impl_->scratch_bytes > 0 && (given == nullptr || !is_aligned(given, scratch_alignment)))
    return input_error(
        fmt::format("expected {} B of scratch at a multiple of {}", impl_->scratch_bytes, scratch_alignment));
  const api::DeviceGuard device_guard(device.number);
  if (!device_guard.status()) return device_guard.status();
  DeviceLaunches::BufferAddresses addresses;
  addresses.reserve(impl_->locations.size());
  for (const BufferLocation& location : impl_->locations)
    addresses.push_back(resolve_address(device, location, inputs, outputs, given));
  for (const api::MisalignedTensor& tensor : impl_->misaligned) {
    const std::byte* from = static_cast<const std::byte*>(inputs[tensor.input].data) + tensor.source_offset;
    const Status copied =
        device::copy_on_stream(stream, given + device.workspace_bytes + tensor.scratch_offset, from, tensor.bytes);
    if (!copied) return copied;
  }
  if (device.workspace_bytes > 0) {
    const auto counters = static_cast<std::int64_t>(device::counter_bytes);
    RIDGE_TRY_STATUS(device::clear_on_stream(stream, given, std::min(counters, device.workspace_bytes)));
  }
  return device.launches.queue_steps(stream, addresses,
                                     {given, static_cast<std::size_t>(device.workspace_bytes), true});
}

}  // namespace ridge
