// Programs on arrays in a device's memory: planned as `ridge run --on cuda` plans them, and queued on the caller's
// stream with the caller's scratch.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <numeric>

#include "ridge/api/computation.h"
#include "ridge/api/on_device.h"
#include "ridge/api/views.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/stream.h"
#include "ridge/measure/device_machine.h"
#include "ridge/plan/soonest.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;
using api::Place;
using Parts = Computation::Parts;

constexpr std::int64_t line = 256;  // bytes: where the parts of the scratch begin
constexpr std::int64_t word = 16;   // bytes: where arrays begin, for kernels that read so much at once

bool begins(const void* data, std::int64_t at) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(at) == 0;
}

// 0, 1, 2, … in a device's memory, where they stay: a graph may have captured their address.
Result<std::byte*> counts_on(int device, const std::vector<float>& counts) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::pair<int, std::vector<float>>, cuda::Memory>;  // never torn down
  const std::lock_guard lock(mutex);
  const auto known = all.find({device, counts});
  if (known != all.end()) return known->second.data();
  const auto bytes = static_cast<std::int64_t>(counts.size() * sizeof(float));
  auto memory = cuda::Memory::make(bytes);
  if (!memory) return memory.error();
  const auto queue = cuda::Queue::make();
  if (!queue) return queue.error();
  for (const Status& done : {queue->copy(memory->data(), counts.data(), bytes), queue->wait()})
    if (!done) return done.error();
  return all.emplace(std::pair(device, counts), *std::move(memory)).first->second.data();
}

// Addresses that are aligned as those of every call: what a choice of kernels asks about them.
std::vector<std::byte*> stand_ins(const Parts& parts) {
  std::vector<std::byte*> out;
  auto* const somewhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 32);
  for (const Place& place : parts.places)
    out.push_back(place.in == Place::In::nowhere ? nullptr : somewhere + place.offset);
  return out;
}

std::byte* address(const api::OnDevice& device, const Place& place, std::span<const ArrayView> inputs,
                   std::span<const ArrayView> outputs, std::byte* scratch) {
  switch (place.in) {
    case Place::In::nowhere: break;
    case Place::In::input: return static_cast<std::byte*>(inputs[place.index].data) + place.offset;
    case Place::In::output: return static_cast<std::byte*>(outputs[place.index].data) + place.offset;
    case Place::In::scratch: return scratch + device.workspace_bytes + place.offset;
    case Place::In::counts: return device.counts[place.index];
  }
  return nullptr;
}

Status check_places(const Parts& parts, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs) {
  if (const Status fits = api::check_operands(parts, inputs, outputs); !fits) return fits;
  for (std::size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
    const bool is_input = i < inputs.size();
    const ArrayView& view = is_input ? inputs[i] : outputs[i - inputs.size()];
    if (Computation::queues(view)) continue;
    const std::string& name = is_input ? parts.inputs[i].name : parts.outputs[i - inputs.size()].name;
    return input_error(fmt::format(
        "expected '{}' to lie row-major, without gaps, at a multiple of {} bytes of the device's memory", name, word));
  }
  return Done{};
}

}  // namespace

Status api::plan_on_device(Parts& parts, const FuseOptions& how, int device) {
  const cuda::OutsideCapture outside;
  const OnThatDevice there(device);
  if (!there.status()) return there.status();
  const auto numbers = device_numbers_here();
  if (!numbers) return numbers.error();
  FuseOptions options = how;
  options.generate = !cuda::interpreted();
  auto planned = soonest_plan(parts.program, parts.dims, options, *numbers);
  if (!planned) return planned.error();
  parts.plan = *std::move(planned);
  if (Status able = check_kernels(parts, refuse_on_device); !able) {
    Error error = able.error();
    error.hint = "arrays in this computer's memory are worked on by its CPU";
    return error;
  }
  place(parts, {.alignment = line, .parts = word});
  std::vector<std::byte*> counts;
  for (const std::vector<float>& each : parts.counts) {
    const auto lie = counts_on(device, each);
    if (!lie) return lie.error();
    counts.push_back(*lie);
  }
  auto launches = DeviceLaunches::make(std::move(parts.plan), stand_ins(parts), {.tune = {.stored = true}});
  if (!launches) return launches.error();
  const auto workspace = (static_cast<std::int64_t>(launches->workspace_bytes()) + line - 1) / line * line;
  parts.scratch_bytes += workspace;
  parts.device = OnDevice{device, *std::move(launches), workspace, std::move(counts)};
  return Done{};
}

bool Computation::queues(const ArrayView& array) { return api::is_plain(array) && begins(array.data, word); }

Status Computation::queue(CUstream_st* stream, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                          void* scratch) const {
  if (!parts_->device)
    return input_error(
        "the program was planned for arrays in this computer's memory; expected a device in the request");
  if (const Status ready = check_places(*parts_, inputs, outputs); !ready) return ready;
  const api::OnDevice& device = *parts_->device;
  auto* const given = static_cast<std::byte*>(scratch);
  if (parts_->scratch_bytes > 0 && (given == nullptr || !begins(given, line)))
    return input_error(fmt::format("expected {} B of scratch at a multiple of {}", parts_->scratch_bytes, line));
  const api::OnThatDevice there(device.number);
  if (!there.status()) return there.status();
  DeviceLaunches::Places places;
  places.reserve(parts_->places.size());
  for (const Place& place : parts_->places) places.push_back(address(device, place, inputs, outputs, given));
  for (const api::MovedPart& part : parts_->moved) {
    const std::byte* from = static_cast<const std::byte*>(inputs[part.input].data) + part.from;
    const Status copied = cuda::copy_on(stream, given + device.workspace_bytes + part.to, from, part.bytes);
    if (!copied) return copied;
  }
  if (device.workspace_bytes > 0) {
    const auto counters = static_cast<std::int64_t>(cuda::counter_bytes);
    const Status cleared = cuda::clear_on(stream, given, std::min(counters, device.workspace_bytes));
    if (!cleared) return cleared;
  }
  return device.launches.queue(stream, places, {given, static_cast<std::size_t>(device.workspace_bytes), true});
}

}  // namespace ridge
