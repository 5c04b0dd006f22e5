#include "ridge/compute.h"

#include <fmt/format.h>

#include "ridge/api/computation.h"
#include "ridge/api/dtypes.h"
#include "ridge/api/signature.h"
#include "ridge/api/views.h"
#include "ridge/base/cores.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/steps.h"

namespace ridge {
namespace {

using Parts = Computation::Parts;

constexpr std::int64_t alignment = 64;

// One call: its operands' addresses, and what it holds while it runs.
class Call {
 public:
  Call(const Parts& parts, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs)
      : parts_(parts), inputs_(inputs), outputs_(outputs) {}

  Status prepare() {
    if (const Status fits = api::check_operands(parts_, inputs_, outputs_); !fits) return fits;
    for (const auto& step : {&Call::copy, &Call::check_indices})
      if (const Status done = (this->*step)(); !done) return done;
    return Done{};
  }

  Status perform(int threads) {
    auto scratch = parts_.take_scratch();
    if (!scratch) return api::no_memory(parts_.scratch_bytes);
    addresses_.reserve(parts_.places.size());
    for (const api::Place& place : parts_.places) addresses_.push_back(address(place, scratch->array().data));
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

  void* address(const api::Place& place, std::byte* scratch) const {
    switch (place.in) {
      case api::Place::In::nowhere: break;
      case api::Place::In::input: return data_[place.index] + place.offset;
      case api::Place::In::output: return static_cast<std::byte*>(outputs_[place.index].data) + place.offset;
      case api::Place::In::scratch: return scratch + place.offset;
      case api::Place::In::counts: return const_cast<float*>(parts_.counts[place.index].data());
    }
    return nullptr;
  }

  const Parts& parts_;
  std::span<const ArrayView> inputs_, outputs_;
  std::vector<std::byte*> data_;  // of each input, after copying
  std::vector<ArrayStorage> copies_;
  std::vector<void*> addresses_;
};

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

Status plan_here(Parts& parts, const FuseOptions& how) {
  auto planned = plan(parts.program, parts.dims, how);
  if (!planned) return planned.error();
  parts.plan = *std::move(planned);
  if (const Status able = api::check_kernels(parts, refuse); !able) return able;
  api::place(parts, {.alignment = alignment});
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
  for (const api::Asked& each : *outputs) parts->results.push_back(each.tensors.front());
  if (const Status plain = check_arrays(*parts); !plain) return plain.error();
  FuseOptions how{.target = request.device ? Target::cuda : Target::cpu, .fuse = request.fuse};
  for (const api::Asked& each : *outputs) how.stored.push_back(each.tensors.front());
  const Status ready = request.device ? api::plan_on_device(*parts, how, *request.device) : plan_here(*parts, how);
  if (!ready) return ready.error();
  return Computation(std::move(parts));
}

const std::vector<ArrayType>& Computation::inputs() const { return parts_->inputs; }
const std::vector<ArrayType>& Computation::outputs() const { return parts_->outputs; }
std::int64_t Computation::scratch_bytes() const { return parts_->scratch_bytes; }

Status Computation::operator()(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                               int threads) const {
  if (parts_->device)
    return input_error(
        fmt::format("the program was planned for arrays on CUDA device {}; expected a stream to queue it on",
                    parts_->device->number));
  Call call(*parts_, inputs, outputs);
  if (const Status ready = call.prepare(); !ready) return ready;
  return call.perform(threads > 0 ? threads : usable_cores());
}

}  // namespace ridge
