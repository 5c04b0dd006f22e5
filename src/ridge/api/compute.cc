#include "ridge/compute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "ridge/api/dtypes.h"
#include "ridge/api/signature.h"
#include "ridge/api/views.h"
#include "ridge/base/cores.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/memory.h"
#include "ridge/measure/steps.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"

namespace ridge {
namespace {

// Where a buffer of the plan lies: in an array of the caller's, in the scratch, or among the counts.
struct Place {
  enum class In { nowhere, input, output, scratch, counts } in = In::nowhere;
  std::size_t index = 0;    // of the array, or into Parts::counts
  std::int64_t offset = 0;  // bytes
};

constexpr std::int64_t alignment = 64;
constexpr std::int64_t kept_bytes = std::int64_t{64} << 20;  // of scratch, from one call to the next
std::int64_t rounded(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

struct Computation::Parts {
  Program program;
  Bindings dims;
  Plan plan;
  std::vector<ArrayType> inputs, outputs;
  std::vector<std::vector<int>> tensors;  // of each input: what lies in it, one behind the other
  std::vector<Place> places;              // of Plan::buffers
  std::vector<std::vector<float>> counts;
  std::int64_t scratch_bytes = 0;
  // Scratch of calls that have returned, for the next one; where it is large, the system has it back.
  mutable std::mutex mutex;
  mutable std::vector<ArrayStorage> free;

  std::optional<ArrayStorage> take_scratch() const {
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
  void give_back(ArrayStorage scratch) const {
    if (scratch_bytes == 0 || scratch_bytes > kept_bytes) return;
    const std::lock_guard lock(mutex);
    free.push_back(std::move(scratch));
  }
};

namespace {

using Parts = Computation::Parts;

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
  if (!api::is_plain(outputs[i]))
    return input_error(fmt::format("expected '{}' to be written row-major, without gaps, at a multiple of {} bytes",
                                   name, bits(outputs[i].dtype) / 8));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    if (api::overlap(outputs[i], inputs[k]))
      return input_error(fmt::format("'{}' shares memory with the input '{}'", name, parts.inputs[k].name));
  for (std::size_t k = 0; k < i; ++k)
    if (api::overlap(outputs[i], outputs[k]))
      return input_error(fmt::format("'{}' shares memory with the output '{}'", name, parts.outputs[k].name));
  return Done{};
}

// One call: its operands' addresses, and what it holds while it runs.
class Call {
 public:
  Call(const Parts& parts, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs)
      : parts_(parts), inputs_(inputs), outputs_(outputs) {}

  Status prepare() {
    for (const auto& step : {&Call::check, &Call::copy, &Call::check_indices})
      if (const Status done = (this->*step)(); !done) return done;
    return Done{};
  }

  Status perform(int threads) {
    auto scratch = parts_.take_scratch();
    if (!scratch) return api::no_memory(parts_.scratch_bytes);
    addresses_.reserve(parts_.places.size());
    for (const Place& place : parts_.places) addresses_.push_back(address(place, scratch->array().data));
    std::vector<void*> operands;
    for (const Step& step : parts_.plan.steps) {
      operands.clear();
      for (const int buffer : step.buffers)
        operands.push_back(buffer < 0 ? nullptr : addresses_[static_cast<std::size_t>(buffer)]);
      ridge::perform(step, operands, threads);
    }
    parts_.give_back(*std::move(scratch));
    return Done{};
  }

 private:
  Status check() {
    if (inputs_.size() != parts_.inputs.size() || outputs_.size() != parts_.outputs.size())
      return input_error(fmt::format("expected {} inputs and {} outputs, found {} and {}", parts_.inputs.size(),
                                     parts_.outputs.size(), inputs_.size(), outputs_.size()));
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (const Status type = check_type(inputs_[i], parts_.inputs[i]); !type) return type;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (const Status writes = check_output(parts_, i, inputs_, outputs_); !writes) return writes;
    return Done{};
  }

  Status copy() {
    for (const ArrayView& view : inputs_) {
      data_.push_back(static_cast<std::byte*>(view.data));
      if (api::is_plain(view)) continue;
      auto copied = api::plain_copy(view);
      if (!copied) return copied.error();
      data_.back() = copied->array().data;
      copies_.push_back(*std::move(copied));
    }
    return Done{};
  }

  Status check_indices() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::byte* at = data_[i];
      for (const int tensor : parts_.tensors[i]) {
        const Buffer& buffer = parts_.plan.buffers[static_cast<std::size_t>(tensor)];
        const Status inside =
            ridge::check_indices(parts_.program, parts_.dims, tensor, {buffer.dtype, buffer.elements, at});
        if (!inside) {
          Error error = inside.error();
          error.hint.clear();
          return error;
        }
        at += buffer.bytes();
      }
    }
    return Done{};
  }

  void* address(const Place& place, std::byte* scratch) const {
    switch (place.in) {
      case Place::In::nowhere: break;
      case Place::In::input: return data_[place.index] + place.offset;
      case Place::In::output: return static_cast<std::byte*>(outputs_[place.index].data) + place.offset;
      case Place::In::scratch: return scratch + place.offset;
      case Place::In::counts: return const_cast<float*>(parts_.counts[place.index].data());
    }
    return nullptr;
  }

  const Parts& parts_;
  std::span<const ArrayView> inputs_, outputs_;
  std::vector<std::byte*> data_;  // of each input, after copying
  std::vector<ArrayStorage> copies_;
  std::vector<void*> addresses_;
};

// Where each buffer lies: the caller's arrays first, the rest in one piece of scratch.
void place(Parts& parts, const std::vector<api::Asked>& outputs) {
  parts.places.resize(parts.plan.buffers.size());
  for (std::size_t i = 0; i < parts.tensors.size(); ++i) {
    std::int64_t offset = 0;
    for (const int tensor : parts.tensors[i]) {
      parts.places[static_cast<std::size_t>(tensor)] = {Place::In::input, i, offset};
      offset += parts.plan.buffers[static_cast<std::size_t>(tensor)].bytes();
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    parts.places[static_cast<std::size_t>(outputs[i].tensors.front())] = {Place::In::output, i, 0};
  for (std::size_t i = 0; i < parts.places.size(); ++i) {
    const Buffer& buffer = parts.plan.buffers[i];
    if (parts.places[i].in != Place::In::nowhere || buffer.elements == 0) continue;
    if (buffer.counts) {
      parts.places[i] = {Place::In::counts, parts.counts.size(), 0};
      parts.counts.push_back(counts_of(buffer));
      continue;
    }
    parts.places[i] = {Place::In::scratch, 0, parts.scratch_bytes};
    parts.scratch_bytes += rounded(buffer.bytes());
  }
}

// The program in the arrays' dtype, where it leaves that open and they agree on another than its own.
Result<LoadedProgram> loaded(const ComputeRequest& request, const std::vector<ArrayType>& given) {
  auto program = api::load_in(request.program, request.dtype, request.dims);
  if (!program || request.dtype) return program;
  const std::vector<api::Asked> asked = api::inputs_asked(program->program);
  const auto order = api::matched(asked, given);
  if (!order) return program;  // said again, with the sizes, by prepare()
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const DType dtype = given[(*order)[i]].dtype;
    if (dtype == asked[i].dtype) continue;
    auto other = api::load_in(request.program, dtype, request.dims);
    return other ? other : program;
  }
  return program;
}

Status check_kernels(const Plan& plan, const Program& program) {
  for (const Step& step : plan.steps) {
    const auto why = refuse(step);
    if (!why) continue;
    const Group& group = plan.fusion.groups[static_cast<std::size_t>(step.group)];
    const Statement& first = program.statements[static_cast<std::size_t>(group.statements.front())];
    return input_error(fmt::format("cannot run '{}': {}", first.text, *why));
  }
  return Done{};
}

// Blocks lie as no array does.
Status check_arrays(const Parts& parts) {
  for (const auto* types : {&parts.inputs, &parts.outputs})
    for (const ArrayType& type : *types)
      if (is_scaled(type.dtype))
        return input_error(fmt::format("'{}' is {}; expected arrays without block scales", type.name, name(type.dtype)),
                           "quantize inside of the program, and give back what it makes of that");
  return Done{};
}

Result<std::vector<ArrayType>> sized(const std::vector<api::Asked>& asked, const Bindings& dims) {
  std::vector<ArrayType> out;
  for (const api::Asked& each : asked) {
    out.push_back({each.name, each.dtype, {}});
    for (const Polynomial& extent : each.extents) {
      const auto size = extent.evaluate(dims);
      if (!size) return size.error();
      out.back().shape.push_back(*size);
    }
  }
  return out;
}

}  // namespace

Result<Computation> prepare(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  auto program = loaded(request, inputs);
  if (!program) return program.error();
  auto parts = std::make_shared<Parts>();
  parts->program = std::move(program->program);
  const std::vector<api::Asked> asked = api::inputs_asked(parts->program);
  const auto outputs = api::outputs_asked(parts->program, request.wanted);
  if (!outputs) return outputs.error();
  const auto order = api::matched(asked, inputs);
  if (!order) return order.error();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    parts->inputs.push_back(inputs[(*order)[i]]);
    parts->inputs.back().name = asked[i].name;
    parts->tensors.push_back(asked[i].tensors);
  }
  auto dims = api::sizes_of(parts->program, asked, parts->inputs, request.dims);
  if (!dims) return dims.error();
  parts->dims = *std::move(dims);
  auto results = sized(*outputs, parts->dims);
  if (!results) return results.error();
  parts->outputs = *std::move(results);
  if (const Status plain = check_arrays(*parts); !plain) return plain.error();
  FuseOptions how{.target = Target::cpu, .fuse = request.fuse};
  for (const api::Asked& each : *outputs) how.stored.push_back(each.tensors.front());
  auto planned = plan(parts->program, parts->dims, how);
  if (!planned) return planned.error();
  parts->plan = *std::move(planned);
  if (const Status able = check_kernels(parts->plan, parts->program); !able) return able.error();
  place(*parts, *outputs);
  return Computation(std::move(parts));
}

const std::vector<ArrayType>& Computation::inputs() const { return parts_->inputs; }
const std::vector<ArrayType>& Computation::outputs() const { return parts_->outputs; }
std::int64_t Computation::scratch_bytes() const { return parts_->scratch_bytes; }

Status Computation::operator()(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                               int threads) const {
  Call call(*parts_, inputs, outputs);
  if (const Status ready = call.prepare(); !ready) return ready;
  return call.perform(threads > 0 ? threads : usable_cores());
}

}  // namespace ridge
