#include "fit_models/weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/file.h"
#include "ridge/base/fitted_file.h"
#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::fit {

using namespace ops;

Result<std::vector<TimedWeights>> read_weights(const std::string& root, const std::string& device_name) {
  const std::string path = root + "/data/timings/weights/h200_sxm.csv";
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(file, parse_fitted_file(text, path, "weights,m,n,k,lines,splits,us"));
  if (file.properties["device"] != device_name)
    return input_error(
        fmt::format("'{}': expected timings of '{}', found '{}'", path, device_name, file.properties["device"]));
  std::vector<TimedWeights> out;
  for (const CsvLine& line : file.lines) {
    double cells[7] = {};
    for (std::size_t i = 1; i < std::size(cells); ++i) {
      RIDGE_TRY(number, parse_cell(file, line, i));
      cells[i] = number;
    }
    const auto weights = parse_dtype(line.cells[0].text);
    if (!weights) return input_error(fmt::format("'{}': unknown dtype '{}'", path, line.cells[0].text));
    const auto m = static_cast<std::int64_t>(cells[1]), n = static_cast<std::int64_t>(cells[2]),
               k = static_cast<std::int64_t>(cells[3]);
    TimedWeights x{.splits = static_cast<int>(cells[5]), .measured_s = 1e-6 * cells[6]};
    x.call.problem = {1, {m, n, k}, {DType::bf16, k, 1, 0}, {*weights, 1, k, 0}, {DType::bf16, n, 1, 0}};
    const auto tile =
        std::ranges::find(cuda::weight_only_tiles, static_cast<int>(cells[4]), &cuda::WeightOnlyTile::lines);
    if (tile == cuda::weight_only_tiles.end())
      return input_error(fmt::format("'{}': expected a tile of 16 to 256 lines, found {}", path, cells[4]));
    x.config = static_cast<int>(tile - cuda::weight_only_tiles.begin());
    if (tile->count_stages(cuda::weight_box(*weights), cuda::count_columns(m)) < cuda::min_stages)
      return input_error(fmt::format("'{}': expected fewer lines for {} rows, found {}", path, m, cells[4]));
    out.push_back(x);
  }
  if (out.empty()) return input_error(fmt::format("'{}': expected timings, found none", path));
  return out;
}

double predicted_seconds(const TimedWeights& timed, const DeviceNumbers& device) {
  return cuda::predict_weight_only_seconds(timed.call, timed.config, timed.splits, device);
}

}  // namespace ridge::fit
