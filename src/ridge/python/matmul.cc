// Matrix products of Python arrays, with the rules of torch.matmul for vectors and leading axes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "ridge/base/block_scale.h"
#include "ridge/python/call.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

using Extents = std::vector<std::int64_t>;
using WeightsType = std::tuple<std::string, std::int64_t, std::int64_t>;  // dtype, n and k
template <class Byte> using HostBytes = nb::ndarray<Byte, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// An operand as a stack of matrices: a vector has a second axis of one element, and a leading axis that is broadcast
// has stride 0.
struct MatrixStack {
  Extents shape, strides;
  ArrayView of(const ArrayView& view) const { return {view.data, view.dtype, shape, strides}; }
};

enum class ProductSide { left, right };

std::size_t leading_axes(const Extents& shape) { return shape.size() < 2 ? 0 : shape.size() - 2; }

// True if the kernels take the operands as they are: matrices whose leading axes are equal, or one of which has none.
bool has_plain_shapes(const Extents& a, const Extents& b) {
  if (a.size() < 2 || b.size() < 2) return false;
  if (a.size() == 2 || b.size() == 2) return true;
  return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
}

// Returns the leading axes of a product. Raises ridge.Error if those of the operands do not match.
Extents broadcast_leading_axes(const Extents& a, const Extents& b) {
  const std::size_t count = std::max(leading_axes(a), leading_axes(b));
  Extents out(count, 1);
  for (const Extents* shape : {&a, &b})
    for (std::size_t axis = 0; axis < leading_axes(*shape); ++axis) {
      std::int64_t& extent = out[count - leading_axes(*shape) + axis];
      const std::int64_t found = (*shape)[axis];
      if (extent != 1 && found != 1 && extent != found)
        raise_error(input_error(fmt::format("expected leading axes that can be broadcast, found a[{}] and b[{}]",
                                            fmt::join(a, ", "), fmt::join(b, ", "))));
      if (extent == 1) extent = found;
    }
  return out;
}

MatrixStack make_stack(const ArrayView& view, const Extents& leading, ProductSide side) {
  MatrixStack out{{view.shape.begin(), view.shape.end()}, {view.strides.begin(), view.strides.end()}};
  if (out.shape.size() == 1 && side == ProductSide::left) {
    out.strides.insert(out.strides.begin(), out.shape[0] * out.strides[0]);
    out.shape.insert(out.shape.begin(), 1);
  } else if (out.shape.size() == 1) {
    out.shape.push_back(1);
    out.strides.push_back(1);
  }
  const std::size_t missing = leading.size() - leading_axes(out.shape);
  out.shape.insert(out.shape.begin(), missing, 1);
  out.strides.insert(out.strides.begin(), missing, 0);
  for (std::size_t axis = 0; axis < leading.size(); ++axis) {
    if (out.shape[axis] != leading[axis]) out.strides[axis] = 0;
    out.shape[axis] = leading[axis];
  }
  return out;
}

// Returns the result as a stack of matrices; it lacks the axis of an operand that is a vector.
MatrixStack make_result_stack(const ArrayView& view, bool left_is_vector, bool right_is_vector) {
  MatrixStack out{{view.shape.begin(), view.shape.end()}, {view.strides.begin(), view.strides.end()}};
  if (out.strides.empty()) {
    out.strides.resize(out.shape.size(), 1);
    for (std::size_t axis = out.shape.size(); axis-- > 1;)
      out.strides[axis - 1] = out.strides[axis] * std::max<std::int64_t>(out.shape[axis], 1);
  }
  const auto insert_axis = [&](std::size_t from_end) {
    const auto stride = from_end == 0 || out.shape.empty() ? 1 : out.shape.back() * out.strides.back();
    out.shape.insert(out.shape.end() - static_cast<std::ptrdiff_t>(from_end), 1);
    out.strides.insert(out.strides.end() - static_cast<std::ptrdiff_t>(from_end), stride);
  };
  if (right_is_vector) insert_axis(0);
  if (left_is_vector) insert_axis(1);
  return out;
}

void check_axes(const Extents& a, const Extents& b) {
  if (a.empty() || b.empty())
    raise_error(input_error(fmt::format("expected operands of at least one axis, found a[{}] and b[{}]",
                                        fmt::join(a, ", "), fmt::join(b, ", "))));
}

// Returns the type of a @ b.
ArrayType product_type(const ArrayOperand& a, const ArrayOperand& b, const std::optional<DType>& dtype) {
  check_axes(a.shape(), b.shape());
  ArrayType out{"out", dtype.value_or(a.dtype()), {}};
  if (has_plain_shapes(a.shape(), b.shape())) {
    const Extents& longer = a.shape().size() > 2 ? a.shape() : b.shape();
    out.shape.assign(longer.begin(), longer.end() - 2);
  } else {
    out.shape = broadcast_leading_axes(a.shape(), b.shape());
  }
  if (a.shape().size() > 1) out.shape.push_back(a.shape()[a.shape().size() - 2]);
  if (b.shape().size() > 1) out.shape.push_back(b.shape().back());
  if (!dtype && a.dtype() == DType::int8 && b.dtype() == DType::int8) out.dtype = DType::int32;
  return out;
}

void queue_product(ArrayCall& call, const MatmulOnDevice& product) {
  CUstream_st* const stream = call.device()->stream();
  void* const scratch = call.allocate_scratch(product.scratch_bytes());
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = product.queue(stream, scratch);
  }
  check_status(*done);
}

void queue_views(ArrayCall& call, const ArrayView& a, const ArrayView& b, const ArrayView& out) {
  if (!MatmulOnDevice::can_read(a) || !MatmulOnDevice::can_read(b))
    raise_error(input_error("on a device, leading axes cannot be broadcast in this layout",
                            "pass a.expand(shape).contiguous()"));
  queue_product(call, value_or_raise(MatmulOnDevice::make(call.device()->number(), a, b, out)));
}

void multiply_views(ArrayCall& call, const ArrayView& a, const ArrayView& b, const ArrayView& out, int threads) {
  if (call.device()) return queue_views(call, a, b, out);
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = matmul(a, b, out, threads);
  }
  check_status(*done);
}

// Multiplies operands that are vectors or have leading axes to broadcast.
void multiply_broadcast(ArrayCall& call, const ArrayView& a, const ArrayView& b, const ArrayType& type, int threads) {
  const Extents a_shape(a.shape.begin(), a.shape.end()), b_shape(b.shape.begin(), b.shape.end());
  const ArrayView out = call.output_views()[0];
  if (!std::equal(out.shape.begin(), out.shape.end(), type.shape.begin(), type.shape.end()))
    raise_error(input_error(fmt::format("expected out to have shape [{}], found [{}]", fmt::join(type.shape, ", "),
                                        fmt::join(out.shape, ", "))));
  const Extents leading = broadcast_leading_axes(a_shape, b_shape);
  const MatrixStack left = make_stack(a, leading, ProductSide::left),
                    right = make_stack(b, leading, ProductSide::right);
  const MatrixStack result = make_result_stack(out, a_shape.size() == 1, b_shape.size() == 1);
  multiply_views(call, left.of(a), right.of(b), result.of(out), threads);
}

// Returns an operand; on a device it is copied if kernels cannot read its layout.
ArrayView operand_view(ArrayCall& call, std::size_t i) {
  return call.device() ? call.device_view(i, MatmulOnDevice::can_read) : call.inputs()[i].view();
}

// Multiplies two matrices of PyTorch in host memory if that takes some 20 us at most on one core: as long as reading
// the arrays in general, allocating and releasing the GIL. Returns an empty object for other operands.
nb::object multiply_small_matrices(nb::handle a, nb::handle b, nb::handle out, int threads) {
  constexpr double max_flops = 1 << 20;
  const auto x = view_host_tensor(a), y = view_host_tensor(b);
  if (!x || !y || x->shape.size() != 2 || y->shape.size() != 2 || x->dtype != y->dtype) return {};
  const double elements = static_cast<double>(x->shape[0]) * static_cast<double>(y->shape[1]);
  if (dtype_info(x->dtype).is_integer || x->shape[1] != y->shape[0] ||
      2 * elements * static_cast<double>(x->shape[1]) > max_flops || elements > max_flops)
    return {};
  if (out.is_none()) {
    NewArray result({"out", x->dtype, {x->shape[0], y->shape[1]}});
    check_status(matmul(*x, *y, result.view(), threads));
    return result.release_array(ArrayLibrary::torch);
  }
  const auto result = view_host_tensor(out);
  if (!result) return {};
  check_status(matmul(*x, *y, *result, threads));
  return nb::borrow(out);
}

nb::object multiply_arrays(nb::handle a, nb::handle b, nb::handle out, const std::optional<std::string>& dtype,
                           nb::handle thread_count) {
  const int threads = parse_threads(thread_count);
  if (!dtype)
    if (nb::object product = multiply_small_matrices(a, b, out, threads); product.is_valid()) return product;
  ArrayCall call;
  call.add_input("a", a);
  call.add_input("b", b);
  const ArrayOperand &left = call.inputs()[0], &right = call.inputs()[1];
  const ArrayType type = product_type(left, right, parse_optional_dtype(dtype));
  call.add_result(type, out);
  const ArrayView x = operand_view(call, 0), y = operand_view(call, 1);
  if (has_plain_shapes(left.shape(), right.shape()))
    multiply_views(call, x, y, call.output_views()[0], threads);
  else
    multiply_broadcast(call, x, y, type, threads);
  return call.release_result(0);
}

// Returns the dtype of weights, which has block scales. Raises ridge.Error for others.
DType parse_weight_dtype(const std::string& name) {
  const DType out = *parse_optional_dtype(name);
  if (!is_block_scaled(out))
    raise_error(input_error(fmt::format("expected weights of a dtype with block scales, found {}", name)));
  return out;
}

// Raises ridge.Error unless an array has the bytes of these weights.
void check_weight_bytes(const WeightsType& weights, std::size_t bytes) {
  const auto& [name, n, k] = weights;
  const std::int64_t expected = stored_bytes(parse_weight_dtype(name), n * k);
  if (static_cast<std::int64_t>(bytes) != expected)
    raise_error(input_error(
        fmt::format("expected {} bytes for weights [{}, {}] of {}, found {}", expected, n, k, name, bytes)));
}

[[noreturn]] void raise_not_weight_bytes() {
  raise_error(input_error("expected the data of weights as one axis of uint8 without gaps",
                          "ridge.weights_from_gptq and ridge.weights_from_awq return such weights"));
}

HostBytes<const std::uint8_t> read_host_bytes(nb::handle array) {
  HostBytes<const std::uint8_t> out;
  if (!nb::try_cast(array, out, false)) raise_not_weight_bytes();
  return out;
}

// Adds the bytes of weights on a device to the inputs of a call, as int8. Raises ridge.Error for other arrays, and for
// an array on another device than the first input.
ArrayView add_device_bytes(ArrayCall& call, nb::handle array) {
  const ArrayLibrary library = array_library(array);
  if (library == ArrayLibrary::numpy || !nb::hasattr(array, "dtype") ||
      !nb::cast<std::string>(nb::str(nb::handle(nb::object(array.attr("dtype"))))).ends_with("uint8"))
    raise_not_weight_bytes();
  const nb::object as_int8 = library == ArrayLibrary::torch
                                 ? nb::object(array.attr("view")(nb::module_::import_("torch").attr("int8")))
                                 : nb::object(array.attr("view")("int8"));
  call.add_input("weights", as_int8);
  const ArrayView out = call.inputs().back().view();
  if (out.shape.size() != 1 || (out.shape[0] > 1 && out.strides[0] != 1)) raise_not_weight_bytes();
  return out;
}

// Queues a product with weights on a device, whose bytes are in the order that `split_weights` writes.
void queue_weights(ArrayCall& call, nb::handle bytes, const WeightsType& weights) {
  const auto& [name, n, k] = weights;
  const ArrayView data = add_device_bytes(call, bytes);
  check_weight_bytes(weights, static_cast<std::size_t>(data.shape[0]));
  const BlockScaledWeights matrix{data.data, parse_weight_dtype(name), n, k};
  queue_product(call, value_or_raise(MatmulOnDevice::make(call.device()->number(), operand_view(call, 0), matrix,
                                                          call.output_views()[0])));
}

// Multiplies matrices [..., m, k] by weights [n, k] in blocks with scales, whose bytes are an array: a @ weights.T.
nb::object multiply_weights(nb::handle a, nb::handle bytes, const WeightsType& weights, nb::handle out,
                            const std::optional<std::string>& dtype, nb::handle thread_count) {
  const int threads = parse_threads(thread_count);
  const auto& [name, n, k] = weights;
  ArrayCall call;
  call.add_input("a", a);
  const ArrayOperand& left = call.inputs()[0];
  Extents shape(left.shape().begin(), left.shape().end());
  if (shape.size() < 2 || shape.back() != k)
    raise_error(input_error(
        fmt::format("expected a[..., m, {}] for weights [{}, {}], found a[{}]", k, n, k, fmt::join(shape, ", "))));
  shape.back() = n;
  call.add_result({"out", parse_optional_dtype(dtype).value_or(left.dtype()), shape}, out);
  if (call.device()) {
    queue_weights(call, bytes, weights);
    return call.release_result(0);
  }
  const auto blocks = read_host_bytes(bytes);
  check_weight_bytes(weights, blocks.size());
  const BlockScaledWeights matrix{blocks.data(), parse_weight_dtype(name), n, k};
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = matmul(left.view(), matrix, call.output_views()[0], threads);
  }
  check_status(*done);
  return call.release_result(0);
}

// Copies weights from the order of hosts to that of devices: all elements, then all scales.
void split_weights(nb::handle bytes, const WeightsType& weights, const HostBytes<std::uint8_t>& planes) {
  const auto blocks = read_host_bytes(bytes);
  check_weight_bytes(weights, blocks.size());
  check_weight_bytes(weights, planes.size());
  const auto& [name, n, k] = weights;
  const DType dtype = parse_weight_dtype(name);
  const std::int64_t count = n * k / dtype_info(dtype).block;
  const nb::gil_scoped_release released;
  split_blocks(dtype, blocks.data(), count, planes.data(), planes.data() + element_plane_bytes(dtype, n * k));
}

}  // namespace

void add_matmul(nb::module_& module) {
  module.def("matmul", multiply_arrays, nb::arg("a").none(), nb::arg("b").none(), nb::arg("out").none(),
             nb::arg("dtype").none(), nb::arg("threads").none());
  module.def("matmul_weights", multiply_weights, nb::arg("a").none(), nb::arg("bytes").none(), nb::arg("weights"),
             nb::arg("out").none(), nb::arg("dtype").none(), nb::arg("threads").none());
  module.def("split_weights", split_weights, nb::arg("bytes").none(), nb::arg("weights"), nb::arg("planes"));
}

}  // namespace ridge::python
