// Simulations of systolic arrays, dataflow chips and decoding.
#include <fmt/format.h>

#include "ridge/api/dtypes.h"
#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/program/bindings.h"

namespace ridge::api {
namespace {

// Returns the request with the values of a table row.
Result<SystolicRequest> apply_row(SystolicRequest request, const Bindings& row) {
  ProductSize size = request.product.value_or(ProductSize{});
  for (const char* needed : {"M", "N", "K"})
    if (!request.product && !row.contains(needed))
      return input_error(
          fmt::format("expected {} as a column of the table or M N K as arguments, found neither", needed),
          "ridge simulate systolic --rows 32 --cols 32 256 128 256 --table sizes.csv");
  for (const auto& [name, value] : row) {
    if (name == "M")
      size.m = value;
    else if (name == "N")
      size.n = value;
    else if (name == "K")
      size.k = value;
    else if (name == "R")
      request.rows = value;
    else if (name == "C")
      request.cols = value;
    else
      return input_error(fmt::format("expected the columns M, N, K, R or C, found '{}'", name),
                         "M, N, K are the product's sizes, R and C the array's");
  }
  request.product = size;
  return request;
}

}  // namespace

Result<std::vector<SystolicRun>> simulate_systolic(const SystolicRequest& request, const std::string& csv_path) {
  if (csv_path.empty()) return run_systolic(request);
  if (!request.topology.empty())
    return usage_error("expected either --table or --topology, found both",
                       "--table lists products, --topology SCALE-Sim's layers");
  RIDGE_TRY(csv, read_file(csv_path));
  RIDGE_TRY(rows, parse_table(csv, csv_path));
  std::vector<SystolicRun> out;
  for (const Bindings& row : rows) {
    RIDGE_TRY(one, apply_row(request, row));
    RIDGE_TRY(runs, run_systolic(one));
    out.push_back(std::move(runs.front()));
  }
  return out;
}

Result<MappedProgram> simulate_mapping(const Request& request, const MappingOptions& options) {
  RIDGE_TRY(loaded, load_with_dtype(request.program, request.dtype, request.dims));
  RIDGE_TRY(fabric, find_fabric(request.on.name()));
  RIDGE_TRY(mapped, map_to_metapipe(loaded.program, request.dims, fabric, options));
  mapped.program = loaded.title;
  return mapped;
}

Result<DecodeReport> predict_decode(const MachineChoice& on, const DecodeOptions& options) {
  RIDGE_TRY(machine, machine_of(on));
  RIDGE_TRY(config, model::find_config(options.model));
  return predict_call_modes(config, machine, options);
}

}  // namespace ridge::api
