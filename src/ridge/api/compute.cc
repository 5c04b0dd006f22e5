#include "ridge/compute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <utility>

#include "ridge/api/argument_specs.h"
#include "ridge/api/computation.h"
#include "ridge/api/dtypes.h"
#include "ridge/api/views.h"
#include "ridge/base/cores.h"
#include "ridge/ops/rows/cpu.h"
#include "ridge/run/inputs.h"
#include "ridge/run/run_step.h"

namespace ridge {
namespace {

using ComputationImpl = Computation::Impl;

constexpr std::int64_t scratch_alignment = 64;

// One call on a CPU: the addresses of its operands, and copies and scratch memory that live while it runs.
class CpuCall {
 public:
  CpuCall(const ComputationImpl& impl, std::span<const ArrayView> inputs, std::span<const ArrayView> outputs)
      : impl_(impl), inputs_(inputs), outputs_(outputs) {}

  Status prepare_inputs() {
    RIDGE_TRY_STATUS(api::check_operands(impl_, inputs_, outputs_));
    for (const auto& step : {&CpuCall::copy_inputs, &CpuCall::check_indices}) RIDGE_TRY_STATUS((this->*step)());
    return Done{};
  }

  Status run_steps(int threads) {
    auto scratch = impl_.acquire_scratch();
    if (!scratch) return api::out_of_memory_error(impl_.scratch_bytes);
    addresses_.reserve(impl_.locations.size());
    for (const api::BufferLocation& location : impl_.locations)
      addresses_.push_back(address_of(location, scratch->array().data));
    std::vector<void*> operands;
    for (const PlanStep& step : impl_.plan.steps) {
      operands.clear();
      for (const int buffer : step.buffers) operands.push_back(buffer < 0 ? nullptr : addresses_[buffer]);
      ridge::run_step(step, operands, threads);
    }
    impl_.release_scratch(*std::move(scratch));
    return Done{};
  }

 private:
  Status copy_inputs() {
    for (const ArrayView& view : inputs_) {
      data_.push_back(static_cast<std::byte*>(view.data));
      if (api::is_row_major(view)) continue;
      RIDGE_TRY(copied, api::copy_row_major(view));
      data_.back() = copied.array().data;
      copies_.push_back(std::move(copied));
    }
    return Done{};
  }

  Status check_indices() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::byte* at = data_[i];
      for (const int tensor : impl_.tensors[i]) {
        const PlanBuffer& buffer = impl_.plan.buffers[tensor];
        const Status in_range =
            ridge::check_indices(impl_.program, impl_.dims, tensor, {buffer.dtype, buffer.elements, at});
        if (!in_range) {
          Error error = in_range.error();
          error.hint.clear();
          return error;
        }
        at += buffer.size_bytes();
      }
    }
    return Done{};
  }

  void* address_of(const api::BufferLocation& location, std::byte* scratch) const {
    switch (location.space) {
      case api::BufferLocation::Space::none: break;
      case api::BufferLocation::Space::input: return data_[location.index] + location.offset;
      case api::BufferLocation::Space::output:
        return static_cast<std::byte*>(outputs_[location.index].data) + location.offset;
      case api::BufferLocation::Space::scratch: return scratch + location.offset;
      case api::BufferLocation::Space::indices: return const_cast<float*>(impl_.index_values[location.index].data());
    }
    return nullptr;
  }

  const ComputationImpl& impl_;
  std::span<const ArrayView> inputs_, outputs_;
  std::vector<std::byte*> data_;  // Addresses of the inputs, after copying
  std::vector<ArrayStorage> copies_;
  std::vector<void*> addresses_;
};

// Returns a size for each name in the text and for each letter, a dimension of an einsum string.
Bindings placeholder_sizes(const std::string& text) {
  Bindings out;
  std::string name;
  for (const char c : text + ' ') {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (is_letter) out[std::string(1, c)] = 2;
    if (is_letter || c == '_' || std::isdigit(static_cast<unsigned char>(c)) != 0) {
      name += c;
      continue;
    }
    if (!name.empty()) out[name] = 2;
    name.clear();
  }
  return out;
}

// Returns the sizes of the request and those of the arrays, which the order of a chain of products depends on. The
// program is parsed with sizes of no meaning, because only that order depends on them.
Bindings sizes_of_arrays(const ComputeRequest& request, const std::vector<ArrayType>& given) {
  Bindings placeholders = placeholder_sizes(request.program);
  const DType dtype = request.dtype.value_or(given.empty() ? DType::f32 : given.front().dtype);
  const auto program = api::load_with_dtype(request.program, dtype, placeholders);
  if (!program) return request.dims;
  const std::vector<api::ArgumentSpec> specs = api::input_specs(program->program);
  const auto order = api::match_arrays(specs, given);
  if (!order) return request.dims;
  std::vector<ArrayType> inputs;
  for (const std::size_t i : *order) inputs.push_back(given[i]);
  const auto dims = api::solve_dimensions(program->program, specs, inputs, request.dims);
  return dims ? *dims : request.dims;
}

// Loads the program. If that fails, it may lack sizes that the arrays have.
Result<LoadedProgram> load_with_sizes(const ComputeRequest& request, const std::vector<ArrayType>& given) {
  auto program = api::load_with_dtype(request.program, request.dtype, request.dims);
  if (program) return program;
  const Bindings sizes = sizes_of_arrays(request, given);
  return sizes == request.dims ? program : api::load_with_dtype(request.program, request.dtype, sizes);
}

// Loads the program with the dtype of the arrays for tensors that declare none.
Result<LoadedProgram> load_for_arrays(const ComputeRequest& request, const std::vector<ArrayType>& given) {
  auto program = load_with_sizes(request, given);
  if (!program || request.dtype) return program;
  const std::vector<api::ArgumentSpec> specs = api::input_specs(program->program);
  const auto order = api::match_arrays(specs, given);
  if (!order) return program;  // `prepare` reports the error
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const DType dtype = given[(*order)[i]].dtype;
    if (dtype == specs[i].dtype) continue;
    ComputeRequest with_dtype = request;
    with_dtype.dtype = dtype;
    auto other = load_with_sizes(with_dtype, given);
    return other ? other : program;
  }
  return program;
}

Status plan_on_cpu(ComputationImpl& impl, const FuseOptions& options) {
  RIDGE_TRY(planned, make_plan(impl.program, impl.dims, options));
  impl.plan = std::move(planned);
  RIDGE_TRY_STATUS(api::check_kernels(impl, cpu_unsupported_reason));
  api::place_buffers(impl, {.scratch_alignment = scratch_alignment});
  return Done{};
}

// Checks that no array has block scales, because arrays cannot represent their layout.
Status check_no_block_scales(const ComputationImpl& impl) {
  for (const auto* types : {&impl.inputs, &impl.outputs})
    for (const ArrayType& type : *types)
      if (is_block_scaled(type.dtype))
        return input_error(
            fmt::format("'{}' is {}; expected arrays without block scales", type.name, dtype_name(type.dtype)),
            "quantize and dequantize inside the program");
  return Done{};
}

Result<std::vector<ArrayType>> evaluate_shapes(const std::vector<api::ArgumentSpec>& specs, const Bindings& dims) {
  std::vector<ArrayType> out;
  for (const api::ArgumentSpec& each : specs) {
    out.push_back({each.name, each.dtype, {}});
    for (const Polynomial& extent : each.extents) {
      RIDGE_TRY(size, extent.evaluate(dims));
      out.back().shape.push_back(size);
    }
  }
  return out;
}

Status check_softmax(const ArrayView& x, const ArrayView& y, int axis) {
  if (axis < 0 || std::cmp_greater_equal(axis, x.shape.size()))
    return input_error(
        fmt::format("expected an axis from 0 to {}, found {}", static_cast<std::ptrdiff_t>(x.shape.size()) - 1, axis));
  const bool is_float = x.dtype == DType::f32 || x.dtype == DType::bf16 || x.dtype == DType::f16;
  const bool same_shape = std::equal(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end());
  if (!is_float || x.dtype != y.dtype || !same_shape)
    return input_error(fmt::format("expected f32, bf16 or f16 of one dtype and shape, found {}[{}] -> {}[{}]",
                                   dtype_name(x.dtype), fmt::join(x.shape, ", "), dtype_name(y.dtype),
                                   fmt::join(y.shape, ", ")));
  if (!api::is_row_major(y))
    return input_error(fmt::format("expected 'y' to be written row-major, without gaps, at a multiple of {} bytes",
                                   dtype_bits(y.dtype) / 8));
  if (api::has_overlap(x, y)) return input_error("'y' shares memory with the input 'x'");
  return Done{};
}

}  // namespace

Result<Computation> prepare(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  RIDGE_TRY(program, load_for_arrays(request, inputs));
  auto impl = std::make_shared<ComputationImpl>();
  impl->program = std::move(program.program);
  const std::vector<api::ArgumentSpec> specs = api::input_specs(impl->program);
  RIDGE_TRY(outputs, api::output_specs(impl->program, request.requested_results));
  RIDGE_TRY(order, api::match_arrays(specs, inputs));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    impl->inputs.push_back(inputs[order[i]]);
    impl->inputs.back().name = specs[i].name;
    impl->tensors.push_back(specs[i].tensors);
  }
  RIDGE_TRY(dims, api::solve_dimensions(impl->program, specs, impl->inputs, request.dims));
  impl->dims = std::move(dims);
  RIDGE_TRY(results, evaluate_shapes(outputs, impl->dims));
  impl->outputs = std::move(results);
  for (const api::ArgumentSpec& each : outputs) impl->results.push_back(each.tensors.front());
  RIDGE_TRY_STATUS(check_no_block_scales(*impl));
  FuseOptions options{.target = request.device ? Target::cuda : Target::cpu, .fuse = request.fuse};
  for (const api::ArgumentSpec& each : outputs) options.stored_tensors.push_back(each.tensors.front());
  RIDGE_TRY_STATUS(request.device ? api::plan_on_device(*impl, options, *request.device) : plan_on_cpu(*impl, options));
  return Computation(std::move(impl));
}

const std::vector<ArrayType>& Computation::inputs() const { return impl_->inputs; }
const std::vector<ArrayType>& Computation::outputs() const { return impl_->outputs; }
std::int64_t Computation::scratch_bytes() const { return impl_->scratch_bytes; }

Status Computation::operator()(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                               int threads) const {
  if (impl_->device)
    return input_error(
        fmt::format("the program was planned for arrays on CUDA device {}; expected a stream to queue it on",
                    impl_->device->number));
  CpuCall call(*impl_, inputs, outputs);
  RIDGE_TRY_STATUS(call.prepare_inputs());
  return call.run_steps(threads > 0 ? threads : usable_cores());
}

Status softmax(const ArrayView& x, const ArrayView& y, int axis, int threads) {
  RIDGE_TRY_STATUS(check_softmax(x, y, axis));
  ops::ColumnSoftmaxProblem p{x.dtype, 1, x.shape[axis], 1};
  for (const std::int64_t extent : x.shape.first(axis)) p.matrices *= extent;
  for (const std::int64_t extent : x.shape.subspan(axis + 1)) p.columns *= extent;
  if (p.matrices * p.extent * p.columns == 0) return Done{};
  std::optional<ArrayStorage> copy;
  if (!api::is_row_major(x)) {
    RIDGE_TRY(copied, api::copy_row_major(x));
    copy = std::move(copied);
  }
  const void* const from = copy ? copy->array().data : x.data;
  if (threads <= 0) threads = usable_cores();
  if (p.columns > 1) {
    ops::run_column_softmax(p, from, y.data, threads);
    return Done{};
  }
  const ops::RowProblem rows{ops::RowFunction::softmax, p.matrices, p.extent, {p.dtype, p.extent}, {p.dtype, p.extent}};
  ops::run_row_function(rows, {from, nullptr, y.data}, threads);
  return Done{};
}

}  // namespace ridge
