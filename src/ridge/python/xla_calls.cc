// Handlers of XLA's foreign function interface: a matrix product and a program, on a CPU and on CUDA. ridge.jax
// registers them and lowers its operators to calls of them.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ridge/api/plan_cache.h"
#include "ridge/python/module.h"
#include "ridge/python/xla_ffi.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

using xla::CallFrame;
using xla::FfiError;

// Alignment in bytes of a workspace, and the largest one that XLA's allocator takes
constexpr std::size_t scratch_alignment = 256, requested_alignment = 16;

FfiError* make_error(const CallFrame* frame, const std::string& text, int code = xla::code_invalid) {
  xla::ErrorArgs args{{sizeof(xla::ErrorArgs), nullptr}, text.c_str(), code};
  return frame->api->create_error(&args);
}

// Returns the message of an error of XLA and destroys the error.
std::string release_message(const CallFrame* frame, FfiError* error) {
  xla::ErrorMessageArgs read{{sizeof(xla::ErrorMessageArgs), nullptr}, error, nullptr, 0};
  frame->api->read_error(&read);
  const std::string text = read.message ? read.message : "";
  xla::ErrorDestroyArgs destroy{{sizeof(xla::ErrorDestroyArgs), nullptr}, error};
  frame->api->destroy_error(&destroy);
  return text;
}

Status to_status(const CallFrame* frame, const char* action, FfiError* error) {
  if (!error) return Done{};
  return input_error(fmt::format("expected XLA to {}, found the error: {}", action, release_message(frame, error)));
}

// Returns attribute `name`, or null if the call has none of this type.
const void* find_attribute(const CallFrame* frame, std::string_view name, int type) {
  const xla::AttributeList& list = frame->attributes;
  for (std::int64_t i = 0; i < list.size; ++i)
    if (std::string_view(list.names[i]->data, list.names[i]->size) == name && list.types[i] == type)
      return list.values[i];
  return nullptr;
}

std::string text_attribute(const CallFrame* frame, std::string_view name) {
  const auto* const span = static_cast<const xla::ByteSpan*>(find_attribute(frame, name, xla::string_attribute));
  return span ? std::string(span->data, span->size) : std::string();
}

bool flag_attribute(const CallFrame* frame, std::string_view name) {
  const auto* const scalar = static_cast<const xla::Scalar*>(find_attribute(frame, name, xla::scalar_attribute));
  return scalar && scalar->dtype == xla::element_int64 && *static_cast<const std::int64_t*>(scalar->value) != 0;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

Result<DType> to_dtype(int element) {
  switch (element) {
    case xla::element_f32: return DType::f32;
    case xla::element_bf16: return DType::bf16;
    case xla::element_f16: return DType::f16;
    case xla::element_int8: return DType::int8;
    case xla::element_int32: return DType::int32;
    default: return input_error("expected arrays of float32, bfloat16, float16, int8 or int32");
  }
}

// Returns row-major views of the arguments or results.
Result<std::vector<ArrayView>> read_views(const xla::BufferList& list) {
  std::vector<ArrayView> out;
  for (std::int64_t i = 0; i < list.size; ++i) {
    const auto* const buffer = static_cast<const xla::Buffer*>(list.buffers[i]);
    RIDGE_TRY(dtype, to_dtype(buffer->dtype));
    out.push_back({buffer->data, dtype, {buffer->dims, static_cast<std::size_t>(buffer->rank)}, {}});
  }
  return out;
}

// Stream, device number and workspace of a call on CUDA. The workspace is returned to XLA's allocator, whose order is
// that of the stream, at the end of the call.
class DeviceCall {
 public:
  explicit DeviceCall(const CallFrame* frame) : frame_(frame) {}
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;
  ~DeviceCall() {
    if (!scratch_) return;
    xla::FreeArgs args{{sizeof(xla::FreeArgs), nullptr}, frame_->context, bytes_, scratch_};
    if (FfiError* const error = frame_->api->free(&args)) release_message(frame_, error);
  }

  Result<int> device() const {
    xla::DeviceArgs args{{sizeof(xla::DeviceArgs), nullptr}, frame_->context, 0};
    RIDGE_TRY_STATUS(to_status(frame_, "name the call's device", frame_->api->get_device(&args)));
    return static_cast<int>(args.device);
  }
  Result<CUstream_st*> stream() const {
    xla::StreamArgs args{{sizeof(xla::StreamArgs), nullptr}, frame_->context, nullptr};
    RIDGE_TRY_STATUS(to_status(frame_, "name the call's stream", frame_->api->get_stream(&args)));
    return static_cast<CUstream_st*>(args.stream);
  }
  Result<void*> allocate_scratch(std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    bytes_ = static_cast<std::size_t>(bytes) + scratch_alignment - requested_alignment;
    xla::AllocateArgs args{{sizeof(xla::AllocateArgs), nullptr}, frame_->context, bytes_, requested_alignment, nullptr};
    RIDGE_TRY_STATUS(
        to_status(frame_, fmt::format("allocate {} B of workspace", bytes).c_str(), frame_->api->allocate(&args)));
    scratch_ = args.data;
    const auto address = reinterpret_cast<std::uintptr_t>(scratch_);
    return reinterpret_cast<void*>((address + scratch_alignment - 1) / scratch_alignment * scratch_alignment);
  }

 private:
  const CallFrame* frame_;
  void* scratch_ = nullptr;
  std::size_t bytes_ = 0;
};

// Shape and strides of a matrix product's operand whose last two axes are exchanged if `is_transposed`.
struct StridedMatrix {
  std::vector<std::int64_t> shape, strides;
  ArrayView view;

  StridedMatrix(const ArrayView& array, bool is_transposed)
      : shape(array.shape.begin(), array.shape.end()), strides(shape.size(), 1), view(array) {
    for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
    if (is_transposed && shape.size() >= 2) {
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
      std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
    }
    view.shape = shape;
    view.strides = strides;
  }
  StridedMatrix(const StridedMatrix&) = delete;
  StridedMatrix& operator=(const StridedMatrix&) = delete;
};

// Arguments a and b, result d; the attributes transpose_a and transpose_b are int64 flags.
Status run_matmul(const CallFrame* frame, bool on_device) {
  RIDGE_TRY(in, read_views(frame->args));
  RIDGE_TRY(out, read_views(frame->results));
  if (in.size() != 2 || out.size() != 1)
    return input_error(fmt::format("expected two operands and one result, found {} and {}", in.size(), out.size()));
  const StridedMatrix a(in[0], flag_attribute(frame, "transpose_a")), b(in[1], flag_attribute(frame, "transpose_b"));
  if (!on_device) return matmul(a.view, b.view, out[0]);
  DeviceCall call(frame);
  RIDGE_TRY(device, call.device());
  RIDGE_TRY(stream, call.stream());
  RIDGE_TRY(product, MatmulOnDevice::make(device, a.view, b.view, out[0]));
  RIDGE_TRY(scratch, call.allocate_scratch(product.scratch_bytes()));
  return product.queue(stream, scratch);
}

// Arguments are the program's inputs in its order. The attribute `program` is the text; `results` is a list of names
// with commas, or empty for every output.
Status run_program(const CallFrame* frame, bool on_device) {
  RIDGE_TRY(in, read_views(frame->args));
  RIDGE_TRY(out, read_views(frame->results));
  ComputeRequest request{.program = text_attribute(frame, "program"),
                         .requested_results = split_names(text_attribute(frame, "results"))};
  std::vector<ArrayType> types;
  for (const ArrayView& view : in) types.push_back({"", view.dtype, {view.shape.begin(), view.shape.end()}});
  if (!on_device) {
    RIDGE_TRY(computation, api::prepare_cached(request, types));
    return computation(in, out);
  }
  DeviceCall call(frame);
  RIDGE_TRY(device, call.device());
  RIDGE_TRY(stream, call.stream());
  request.device = device;
  RIDGE_TRY(computation, api::prepare_cached(request, types));
  RIDGE_TRY(scratch, call.allocate_scratch(computation.scratch_bytes()));
  return computation.queue(stream, in, out, scratch);
}

// XLA asks for the version before the first call, with an extension of the frame.
bool is_metadata_query(const CallFrame* frame) {
  return frame->header.extensions && frame->header.extensions->type == xla::metadata_extension;
}

FfiError* answer_metadata(const CallFrame* frame) {
  xla::Metadata* const metadata = reinterpret_cast<xla::MetadataExtension*>(frame->header.extensions)->metadata;
  metadata->api_version.major_version = xla::ffi_major;
  metadata->api_version.minor_version = std::min(xla::ffi_minor, frame->api->version.minor_version);
  metadata->traits = 0;  // Not for command buffers: the first call of a program plans and loads kernels
  return nullptr;
}

template <Status (*run)(const CallFrame*, bool), bool on_device> FfiError* handle_call(CallFrame* frame) {
  if (is_metadata_query(frame)) return answer_metadata(frame);
  if (frame->stage != xla::execute_stage) return nullptr;
  try {
    const Status done = run(frame, on_device);
    if (done) return nullptr;
    std::string text = done.error().to_string();
    while (text.ends_with('\n')) text.pop_back();
    return make_error(frame, text);
  } catch (const std::bad_alloc&) {
    return make_error(frame, "expected enough free memory for the call's workspace", xla::code_full);
  } catch (const std::exception& error) {
    return make_error(frame, error.what());
  }
}

nb::capsule make_capsule(xla::Handler* handler) { return nb::capsule(reinterpret_cast<void*>(handler)); }

// Returns (target, platform, handler) for each handler.
nb::list list_handlers() {
  nb::list out;
  out.append(nb::make_tuple("ridge_matmul", "cpu", make_capsule(handle_call<run_matmul, false>)));
  out.append(nb::make_tuple("ridge_matmul", "CUDA", make_capsule(handle_call<run_matmul, true>)));
  out.append(nb::make_tuple("ridge_run", "cpu", make_capsule(handle_call<run_program, false>)));
  out.append(nb::make_tuple("ridge_run", "CUDA", make_capsule(handle_call<run_program, true>)));
  return out;
}

using NamedType = std::tuple<std::string, std::string, std::vector<std::int64_t>>;  // Name, dtype, shape

// Returns the types of a program's results. Raises ridge.Error as a call with arrays of these types does.
std::vector<NamedType> infer_results(const std::string& program, const std::vector<NamedType>& inputs,
                                     const std::vector<std::string>& results) {
  std::vector<ArrayType> types;
  for (const auto& [name, dtype, shape] : inputs) types.push_back({name, *parse_optional_dtype(dtype), shape});
  std::optional<Result<Computation>> computation;
  {
    const nb::gil_scoped_release released;
    computation = api::prepare_cached({.program = program, .requested_results = results}, types);
  }
  const Computation made = value_or_raise(*std::move(computation));
  std::vector<NamedType> out;
  for (const ArrayType& type : made.outputs()) out.emplace_back(type.name, dtype_name(type.dtype), type.shape);
  return out;
}

}  // namespace

void add_xla_calls(nb::module_& module) {
  module.def("xla_handlers", list_handlers);
  module.def("infer_results", infer_results, nb::arg("program"), nb::arg("inputs"), nb::arg("results"));
}

}  // namespace ridge::python
