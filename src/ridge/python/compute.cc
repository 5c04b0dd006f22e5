// Programs and products on Python's arrays.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/kept.h"
#include "ridge/python/call.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

// The index into `names` of each of the computation's inputs; one without a name is the input at its place.
std::vector<std::size_t> order_of(const std::vector<std::string>& names, const std::vector<ArrayType>& inputs) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::size_t at = 0;
    while (names[at] != inputs[i].name && (!names[at].empty() || at != i)) ++at;
    out.push_back(at);
  }
  return out;
}

// Where results go: by name, or under "" the only one.
nb::object given_for(const std::string& name, const nb::dict& out) {
  for (const char* key : {name.c_str(), ""})
    if (out.contains(key)) return out[key];
  return nb::none();
}

void check_names(const nb::dict& out, const std::vector<ArrayType>& outputs) {
  std::vector<std::string> names;
  for (const ArrayType& type : outputs) names.push_back(type.name);
  for (const auto& [key, array] : out) {
    const std::string name = nb::cast<std::string>(key);
    if (name.empty() && (array.is_none() || names.size() == 1)) continue;
    if (name.empty())
      raise(input_error(fmt::format("expected out to be a mapping from names, for there are {} results: {}",
                                    names.size(), fmt::join(names, ", "))));
    if (std::find(names.begin(), names.end(), name) == names.end())
      raise(input_error(fmt::format("unknown result '{}' in out; expected one of {}", name, fmt::join(names, ", "))));
  }
}

Computation planned(const ComputeRequest& request, const std::vector<ArrayType>& types) {
  std::optional<Result<Computation>> out;
  {
    const nb::gil_scoped_release released;
    out = api::kept(request, types);
  }
  return value_of(*std::move(out));
}

// (name, array) for each result.
nb::list performed(const Computation& computation, const std::vector<std::string>& names, Call& call,
                   const nb::dict& out, int threads) {
  check_names(out, computation.outputs());
  const std::optional<Device>& device = call.device();
  std::vector<ArrayView> in;
  for (const std::size_t at : order_of(names, computation.inputs()))
    in.push_back(device ? call.on_device(at, Computation::queues) : call.inputs()[at].view());
  for (const ArrayType& type : computation.outputs()) call.add_result(type, given_for(type.name, out));
  CUstream_st* const stream = device ? device->stream() : nullptr;
  void* const scratch = device ? call.scratch(computation.scratch_bytes()) : nullptr;
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = device ? computation.queue(stream, in, call.views(), scratch) : computation(in, call.views(), threads);
  }
  check(*done);
  nb::list results;
  for (std::size_t i = 0; i < computation.outputs().size(); ++i)
    results.append(nb::make_tuple(computation.outputs()[i].name, call.result(i)));
  return results;
}

nb::list run_program(ComputeRequest request, const nb::list& inputs, const nb::dict& out, int threads) {
  Call call;
  std::vector<ArrayType> types;
  std::vector<std::string> names;
  for (const nb::handle each : inputs) {
    const auto [name, array] = nb::cast<std::pair<std::string, nb::object>>(each);
    call.add_input(name.empty() ? fmt::format("input {}", names.size()) : name, array);
    types.push_back(call.inputs().back().type(name));
    names.push_back(name);
  }
  if (call.device()) request.device = call.device()->number();
  return performed(planned(request, types), names, call, out, threads);
}

// What a @ b has: the leading axes of the one that has more than two, rows of a, columns of b.
ArrayType product_of(const ArrayType& a, const ArrayType& b, const std::optional<DType>& dtype) {
  if (a.shape.size() < 2 || b.shape.size() < 2)
    raise(input_error(
        fmt::format("expected matrices of at least two axes, found {} and {}", a.shape.size(), b.shape.size())));
  const ArrayType& longer = a.shape.size() > 2 ? a : b;
  ArrayType out{"out", dtype.value_or(a.dtype), {longer.shape.begin(), longer.shape.end() - 2}};
  out.shape.push_back(a.shape[a.shape.size() - 2]);
  out.shape.push_back(b.shape.back());
  if (!dtype && a.dtype == DType::int8 && b.dtype == DType::int8) out.dtype = DType::int32;
  return out;
}

nb::object multiply_on_device(Call& call) {
  const Device& device = *call.device();
  const ArrayView a = call.on_device(0, MatmulOnDevice::reads), b = call.on_device(1, MatmulOnDevice::reads);
  const auto product = value_of(MatmulOnDevice::make(device.number(), a, b, call.views()[0]));
  CUstream_st* const stream = device.stream();
  void* const scratch = call.scratch(product.scratch_bytes());
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = product.queue(stream, scratch);
  }
  check(*done);
  return call.result(0);
}

nb::object multiply(nb::handle a, nb::handle b, nb::handle out, const std::optional<std::string>& dtype, int threads) {
  Call call;
  call.add_input("a", a);
  call.add_input("b", b);
  const Operand &left = call.inputs()[0], &right = call.inputs()[1];
  call.add_result(product_of(left.type("a"), right.type("b"), dtype_of(dtype)), out);
  if (call.device()) return multiply_on_device(call);
  const ArrayView x = left.view(), y = right.view(), z = call.views()[0];
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = matmul(x, y, z, threads);
  }
  check(*done);
  return call.result(0);
}

}  // namespace

void add_arrays(nb::module_& module) {
  module.def(
      "run",
      [](const std::string& program, const nb::list& inputs, const Bindings& dims,
         const std::optional<std::string>& dtype, const std::vector<std::string>& wanted, const nb::dict& out,
         bool fuse, int threads) {
        return run_program({.program = program, .dims = dims, .dtype = dtype_of(dtype), .fuse = fuse, .wanted = wanted},
                           inputs, out, threads);
      },
      nb::arg("program"), nb::arg("inputs"), nb::arg("dims"), nb::arg("dtype").none(), nb::arg("wanted"),
      nb::arg("out"), nb::arg("fuse"), nb::arg("threads"));
  module.def(
      "matmul", multiply, nb::arg("a"), nb::arg("b"), nb::arg("out").none() = nb::none(),
      nb::arg("dtype").none() = nb::none(), nb::arg("threads") = 0,
      "The product a @ b of matrices [..., m, k] and [..., k, n], as an array of a's library and where a lies.\n\n"
      "f32, bf16 or f16 with sums in f32, or int8 with sums in int32; leading axes are the same in both, or one\n"
      "of the two has none. Nothing is copied where rows or columns lie side by side. `out` takes the result,\n"
      "row-major and apart from both. Raises ridge.Error.");
}

}  // namespace ridge::python
