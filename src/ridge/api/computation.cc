#include "ridge/api/computation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/views.h"

namespace ridge {
namespace {
constexpr std::int64_t kept_bytes = std::int64_t{64} << 20;  // of scratch, from one call to the next
}  // namespace

std::optional<ArrayStorage> Computation::Parts::take_scratch() const {
  if (scratch_bytes == 0) return ArrayStorage();
  {
    const std::lock_guard lock(mutex);
    if (!free.empty()) {
      ArrayStorage out = std::move(free.back());
      free.pop_back();
      return out;
    }
  }
  return ArrayStorage::make(DType::int8, scratch_bytes);
}

void Computation::Parts::give_back(ArrayStorage scratch) const {
  if (scratch_bytes == 0 || scratch_bytes > kept_bytes) return;
  const std::lock_guard lock(mutex);
  free.push_back(std::move(scratch));
}

}  // namespace ridge

namespace ridge::api {
namespace {

using Parts = Computation::Parts;

std::int64_t rounded(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

Status check_type(const ArrayView& view, const ArrayType& type) {
  const bool same_shape = std::equal(view.shape.begin(), view.shape.end(), type.shape.begin(), type.shape.end());
  if (view.dtype != type.dtype || !same_shape)
    return input_error(fmt::format("'{}' is {}[{}]; expected {}[{}], for which the program was planned", type.name,
                                   name(view.dtype), fmt::join(view.shape, ", "), name(type.dtype),
                                   fmt::join(type.shape, ", ")));
  if (!view.strides.empty() && view.strides.size() != view.shape.size())
    return input_error(
        fmt::format("'{}' has {} strides; expected {}", type.name, view.strides.size(), view.shape.size()));
  if (view.data == nullptr) return input_error(fmt::format("'{}' has no memory behind it", type.name));
  return Done{};
}

Status check_output(const Parts& parts, std::size_t i, std::span<const ArrayView> inputs,
                    std::span<const ArrayView> outputs) {
  const std::string& name = parts.outputs[i].name;
  if (const Status type = check_type(outputs[i], parts.outputs[i]); !type) return type;
  if (!is_plain(outputs[i]))
    return input_error(fmt::format("expected '{}' to be written row-major, without gaps, at a multiple of {} bytes",
                                   name, bits(outputs[i].dtype) / 8));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (overlap(outputs[i], inputs[k]))
      return input_error(fmt::format("'{}' shares memory with the input '{}'", name, parts.inputs[k].name));
  for (std::size_t k = 0; k < i; ++k)
    if (overlap(outputs[i], outputs[k]))
      return input_error(fmt::format("'{}' shares memory with the output '{}'", name, parts.outputs[k].name));
  return Done{};
}

}  // namespace

Status check_operands(const Parts& parts, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs) {
  if (inputs.size() != parts.inputs.size() || outputs.size() != parts.outputs.size())
    return input_error(fmt::format("expected {} inputs and {} outputs, found {} and {}", parts.inputs.size(),
                                   parts.outputs.size(), inputs.size(), outputs.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const Status type = check_type(inputs[i], parts.inputs[i]); !type) return type;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (const Status writes = check_output(parts, i, inputs, outputs); !writes) return writes;
  return Done{};
}

Status check_kernels(const Parts& parts, std::optional<std::string> (*refuse)(const Step&)) {
  for (const Step& step : parts.plan.steps) {
    const auto why = refuse(step);
    if (!why) continue;
    const Group& group = parts.plan.fusion.groups[static_cast<std::size_t>(step.group)];
    const Statement& first = parts.program.statements[static_cast<std::size_t>(group.statements.front())];
    return input_error(fmt::format("cannot run '{}': {}", first.text, *why));
  }
  return Done{};
}

void place(Parts& parts, const Placing& how) {
  parts.places.resize(parts.plan.buffers.size());
  const auto scratch = [&](std::int64_t bytes) {
    const std::int64_t offset = parts.scratch_bytes;
    parts.scratch_bytes += rounded(bytes, how.alignment);
    return offset;
  };
  for (std::size_t i = 0; i < parts.tensors.size(); ++i) {
    std::int64_t offset = 0;
    for (const int tensor : parts.tensors[i]) {
      const std::int64_t bytes = parts.plan.buffers[static_cast<std::size_t>(tensor)].bytes();
      Place& lies = parts.places[static_cast<std::size_t>(tensor)];
      lies = {Place::In::input, i, offset};
      if (offset % how.parts != 0) {
        lies = {Place::In::scratch, 0, scratch(bytes)};
        parts.moved.push_back({i, offset, lies.offset, bytes});
      }
      offset += bytes;
    }
  }
  for (std::size_t i = 0; i < parts.results.size(); ++i)
    parts.places[static_cast<std::size_t>(parts.results[i])] = {Place::In::output, i, 0};
  for (std::size_t i = 0; i < parts.places.size(); ++i) {
    const Buffer& buffer = parts.plan.buffers[i];
    if (parts.places[i].in != Place::In::nowhere || buffer.elements == 0) continue;
    if (buffer.counts) {
      parts.places[i] = {Place::In::counts, parts.counts.size(), 0};
      parts.counts.push_back(counts_of(buffer));
      continue;
    }
    parts.places[i] = {Place::In::scratch, 0, scratch(buffer.bytes())};
  }
}

}  // namespace ridge::api
