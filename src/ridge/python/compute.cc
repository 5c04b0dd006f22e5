// Runs programs and matrix products on Python arrays.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/api/plan_cache.h"
#include "ridge/base/contains.h"
#include "ridge/python/call.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

// Returns the index in `names` of each input of the computation. An unnamed array is matched by its position.
std::vector<std::size_t> match_names(const std::vector<std::string>& names, const std::vector<ArrayType>& inputs) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::size_t at = 0;
    while (names[at] != inputs[i].name && (!names[at].empty() || at != i)) ++at;
    out.push_back(at);
  }
  return out;
}

// Returns the array for a result: by name, or under "" if there is only one.
nb::object output_array_for(const std::string& name, const nb::dict& out) {
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
      raise_error(input_error(fmt::format("expected out to be a mapping from names, because there are {} results: {}",
                                          names.size(), fmt::join(names, ", "))));
    if (!contains(names, name))
      raise_error(
          input_error(fmt::format("unknown result '{}' in out; expected one of {}", name, fmt::join(names, ", "))));
  }
}

Computation prepare_program(const ComputeRequest& request, const std::vector<ArrayType>& types) {
  std::optional<Result<Computation>> out;
  {
    const nb::gil_scoped_release released;
    out = api::prepare_cached(request, types);
  }
  return value_or_raise(*std::move(out));
}

// Returns (name, array) for each result.
nb::list run_computation(const Computation& computation, const std::vector<std::string>& names, ArrayCall& call,
                         const nb::dict& out, int threads) {
  check_names(out, computation.outputs());
  const std::optional<ArrayDevice>& device = call.device();
  std::vector<ArrayView> in;
  for (const std::size_t at : match_names(names, computation.inputs()))
    in.push_back(device ? call.device_view(at, Computation::can_queue) : call.inputs()[at].view());
  for (const ArrayType& type : computation.outputs()) call.add_result(type, output_array_for(type.name, out));
  CUstream_st* const stream = device ? device->stream() : nullptr;
  void* const scratch = device ? call.allocate_scratch(computation.scratch_bytes()) : nullptr;
  std::optional<Status> done;
  {
    const nb::gil_scoped_release released;
    done = device ? computation.queue(stream, in, call.output_views(), scratch)
                  : computation(in, call.output_views(), threads);
  }
  check_status(*done);
  nb::list results;
  for (std::size_t i = 0; i < computation.outputs().size(); ++i)
    results.append(nb::make_tuple(computation.outputs()[i].name, call.release_result(i)));
  return results;
}

nb::list run_program(ComputeRequest request, const nb::list& inputs, const nb::dict& out, int threads) {
  ArrayCall call;
  std::vector<ArrayType> types;
  std::vector<std::string> names;
  for (const nb::handle each : inputs) {
    const auto [name, array] = nb::cast<std::pair<std::string, nb::object>>(each);
    call.add_input(name.empty() ? fmt::format("input {}", names.size()) : name, array);
    types.push_back(call.inputs().back().type(name));
    names.push_back(name);
  }
  if (call.device()) request.device = call.device()->number();
  return run_computation(prepare_program(request, types), names, call, out, threads);
}

}  // namespace

void add_array_functions(nb::module_& module) {
  module.def(
      "run",
      [](const std::string& program, const nb::list& inputs, const Bindings& dims,
         const std::optional<std::string>& dtype, const std::vector<std::string>& requested, const nb::dict& out,
         bool fuse, int threads) {
        return run_program({.program = program,
                            .dims = dims,
                            .dtype = parse_optional_dtype(dtype),
                            .fuse = fuse,
                            .requested_results = requested},
                           inputs, out, threads);
      },
      nb::arg("program"), nb::arg("inputs"), nb::arg("dims"), nb::arg("dtype").none(), nb::arg("wanted"),
      nb::arg("out"), nb::arg("fuse"), nb::arg("threads"));
}

}  // namespace ridge::python
