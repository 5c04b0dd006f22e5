#include "ridge/api/computation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/views.h"

namespace ridge {
namespace {
constexpr std::int64_t max_kept_scratch_bytes = std::int64_t{64}
                                                << 20;  // Largest scratch memory kept for the next call
}  // namespace

std::optional<ArrayStorage> Computation::Impl::acquire_scratch() const {
  if (scratch_bytes == 0) return ArrayStorage();
  {
    const std::lock_guard lock(mutex);
    if (!free_scratch.empty()) {
      ArrayStorage out = std::move(free_scratch.back());
      free_scratch.pop_back();
      return out;
    }
  }
  return ArrayStorage::make(DType::int8, scratch_bytes);
}

void Computation::Impl::release_scratch(ArrayStorage scratch) const {
  if (scratch_bytes == 0 || scratch_bytes > max_kept_scratch_bytes) return;
  const std::lock_guard lock(mutex);
  free_scratch.push_back(std::move(scratch));
}

}  // namespace ridge

namespace ridge::api {
namespace {

using Impl = Computation::Impl;

std::int64_t round_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Status check_type(const ArrayView& view, const ArrayType& type) {
  const bool same_shape = std::equal(view.shape.begin(), view.shape.end(), type.shape.begin(), type.shape.end());
  if (view.dtype != type.dtype || !same_shape)
    return input_error(fmt::format("'{}' is {}[{}]; expected {}[{}], for which the program was planned", type.name,
                                   dtype_name(view.dtype), fmt::join(view.shape, ", "), dtype_name(type.dtype),
                                   fmt::join(type.shape, ", ")));
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    return input_error(
        fmt::format("'{}' has {} strides; expected {}", type.name, view.strides.size(), view.shape.size()));
  if (view.data == nullptr) return input_error(fmt::format("'{}' has no memory", type.name));
  return Done{};
}

Status check_output(const Impl& impl, std::size_t i, std::span<const ArrayView> inputs,
                    std::span<const ArrayView> outputs) {
  const std::string& name = impl.outputs[i].name;
  RIDGE_TRY_STATUS(check_type(outputs[i], impl.outputs[i]));
  if (!is_row_major(outputs[i]))
    return input_error(fmt::format("expected '{}' to be written row-major, without gaps, at a multiple of {} bytes",
                                   name, dtype_bits(outputs[i].dtype) / 8));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (has_overlap(outputs[i], inputs[k]))
      return input_error(fmt::format("'{}' shares memory with the input '{}'", name, impl.inputs[k].name));
  for (std::size_t k = 0; k < i; ++k)
    if (has_overlap(outputs[i], outputs[k]))
      return input_error(fmt::format("'{}' shares memory with the output '{}'", name, impl.outputs[k].name));
  return Done{};
}

}  // namespace

Status check_operands(const Impl& impl, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs) {
  if (inputs.size() != impl.inputs.size() || outputs.size() != impl.outputs.size())
    return input_error(fmt::format("expected {} inputs and {} outputs, found {} and {}", impl.inputs.size(),
                                   impl.outputs.size(), inputs.size(), outputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) RIDGE_TRY_STATUS(check_type(inputs[i], impl.inputs[i]));
  for (std::size_t i = 0; i < outputs.size(); ++i) RIDGE_TRY_STATUS(check_output(impl, i, inputs, outputs));
  return Done{};
}

Status check_kernels(const Impl& impl, Reason (*unsupported_reason)(const PlanStep&)) {
  for (const PlanStep& step : impl.plan.steps) {
    const auto reason = unsupported_reason(step);
    if (!reason) continue;
    const FusionGroup& group = impl.plan.fusion.groups[step.group];
    const Statement& first = impl.program.statements[group.statements.front()];
    return input_error(fmt::format("cannot run '{}': {}", first.text, reason.text()));
  }
  return Done{};
}

void place_buffers(Impl& impl, const BufferPlacementOptions& options) {
  impl.locations.resize(impl.plan.buffers.size());
  const auto add_scratch = [&](std::int64_t bytes) {
    const std::int64_t offset = impl.scratch_bytes;
    impl.scratch_bytes += round_up(bytes, options.scratch_alignment);
    return offset;
  };
  for (std::size_t i = 0; i < impl.tensors.size(); ++i) {
    std::int64_t offset = 0;
    for (const int tensor : impl.tensors[i]) {
      const std::int64_t bytes = impl.plan.buffers[tensor].size_bytes();
      BufferLocation& location = impl.locations[tensor];
      location = {BufferLocation::Space::input, i, offset};
      if (offset % options.input_alignment != 0) {
        location = {BufferLocation::Space::scratch, 0, add_scratch(bytes)};
        impl.misaligned.push_back({i, offset, location.offset, bytes});
      }
      offset += bytes;
    }
  }
  for (std::size_t i = 0; i < impl.results.size(); ++i)
    impl.locations[impl.results[i]] = {BufferLocation::Space::output, i, 0};
  for (std::size_t i = 0; i < impl.locations.size(); ++i) {
    const PlanBuffer& buffer = impl.plan.buffers[i];
    if (impl.locations[i].space != BufferLocation::Space::none || buffer.elements == 0) continue;
    if (buffer.holds_indices) {
      impl.locations[i] = {BufferLocation::Space::indices, impl.index_values.size(), 0};
      impl.index_values.push_back(index_values(buffer));
      continue;
    }
    impl.locations[i] = {BufferLocation::Space::scratch, 0, add_scratch(buffer.size_bytes())};
  }
}

}  // namespace ridge::api
