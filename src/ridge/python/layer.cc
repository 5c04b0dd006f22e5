// A program of a layer such as softmax, whose plans are found by the types of its arrays alone. A call with types of an
// earlier one neither formats the program nor hashes it, which takes longer than a small layer.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "ridge/api/plan_cache.h"
#include "ridge/python/call.h"

namespace nb = nanobind;

namespace ridge::python {
namespace {

constexpr std::size_t max_kept_plans = 16;

class Layer {
 public:
  Layer(std::string program, std::vector<std::string> names, std::string result, bool fuse)
      : program_(std::move(program)), names_(std::move(names)), result_(std::move(result)), fuse_(fuse) {}

  // Runs the program on arrays in the order of the names; returns the result. Raises ridge.Error.
  nb::object run(const nb::tuple& arrays, nb::handle out, int threads) {
    if (arrays.size() != names_.size()) throw nb::type_error("expected an array for each name");
    ArrayCall call;
    for (std::size_t i = 0; i < names_.size(); ++i) call.add_input(names_[i], arrays[i]);
    const std::shared_ptr<const Plan> plan = find_plan(call);
    call.add_result(plan->computation.outputs().front(), out);
    run_plan(*plan, call, threads);
    return call.release_result(0);
  }

 private:
  struct Plan {
    std::vector<ArrayType> types;
    std::optional<int> device;
    Computation computation;
    std::vector<std::size_t> order;  // Index of the array of each input of the computation
  };

  static bool has_types(const Plan& plan, const ArrayCall& call) {
    const auto same = [](const ArrayType& type, const ArrayOperand& operand) {
      return type.dtype == operand.dtype() && type.shape == operand.shape();
    };
    return plan.device == call.inputs().front().device() &&
           std::equal(plan.types.begin(), plan.types.end(), call.inputs().begin(), same);
  }

  std::shared_ptr<const Plan> find_plan(const ArrayCall& call) {
    for (const auto& plan : plans_)
      if (has_types(*plan, call)) return plan;
    auto made = std::make_shared<const Plan>(make_plan(call));
    if (plans_.size() == max_kept_plans) plans_.erase(plans_.begin());
    plans_.push_back(made);
    return made;
  }

  Plan make_plan(const ArrayCall& call) const {
    std::vector<ArrayType> types;
    for (std::size_t i = 0; i < names_.size(); ++i) types.push_back(call.inputs()[i].type(names_[i]));
    const ComputeRequest request{
        .program = program_, .fuse = fuse_, .requested_results = {result_}, .device = call.inputs().front().device()};
    std::optional<Result<Computation>> prepared;
    {
      const nb::gil_scoped_release released;
      prepared = api::prepare_cached(request, types);
    }
    Plan out{types, request.device, value_or_raise(*std::move(prepared)), {}};
    for (const ArrayType& input : out.computation.inputs())
      out.order.push_back(
          static_cast<std::size_t>(std::find(names_.begin(), names_.end(), input.name) - names_.begin()));
    return out;
  }

  static void run_plan(const Plan& plan, ArrayCall& call, int threads) {
    std::vector<ArrayView> in;
    for (const std::size_t i : plan.order)
      in.push_back(call.device() ? call.device_view(i, Computation::can_queue) : call.inputs()[i].view());
    CUstream_st* const stream = call.device() ? call.device()->stream() : nullptr;
    void* const scratch = call.device() ? call.allocate_scratch(plan.computation.scratch_bytes()) : nullptr;
    std::optional<Status> done;
    {
      const nb::gil_scoped_release released;
      done = call.device() ? plan.computation.queue(stream, in, call.output_views(), scratch)
                           : plan.computation(in, call.output_views(), threads);
    }
    check_status(*done);
  }

  std::string program_;
  std::vector<std::string> names_;
  std::string result_;
  bool fuse_;
  std::vector<std::shared_ptr<const Plan>> plans_;  // A thread may replace a plan while another runs it
};

}  // namespace

void add_layers(nb::module_& module) {
  nb::class_<Layer>(module, "Layer")
      .def(nb::init<std::string, std::vector<std::string>, std::string, bool>(), nb::arg("program"), nb::arg("names"),
           nb::arg("result"), nb::arg("fuse") = true)
      .def("__call__", &Layer::run, nb::arg("arrays"), nb::arg("out").none(), nb::arg("threads"));
}

}  // namespace ridge::python
