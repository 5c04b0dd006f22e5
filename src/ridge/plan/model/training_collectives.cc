#include "ridge/plan/model/training_collectives.h"

#include <fmt/format.h>

#include <utility>

#include "ridge/base/ceil_div.h"

namespace ridge {

std::string write_data_collective(DataCollective kind, std::int64_t elements, DType dtype, const DataRanks& ranks) {
  // Chips that are consecutive along the last axis of a mesh have consecutive numbers.
  std::string mesh, exchanging;
  for (const auto& [axis, size] : {std::pair{'C', ranks.outer}, {'T', ranks.between}, {'E', ranks.inner}}) {
    if (size == 1) continue;
    mesh += fmt::format("{}{} = {}", mesh.empty() ? "" : ", ", axis, size);
    if (axis != 'T') exchanging += axis;
  }
  const std::string part = ranks.between > 1 ? "N_T" : "N",
                    divided = fmt::format("N_{}{}", ranks.between > 1 ? "T" : "", exchanging);
  const bool is_gather = kind == DataCollective::all_gather;
  const std::string &before = is_gather ? divided : part,
                    &after = kind == DataCollective::reduce_scatter ? divided : part;
  const std::int64_t whole = ceil_div(elements, ranks.count()) * ranks.count() * ranks.between;
  return fmt::format("mesh {}\ndims N = {}\ndata part: {}[{}]{}\nall: {}[{}] = part\n", mesh, whole, dtype_name(dtype),
                     before, is_gather ? "" : fmt::format("{{U_{}}}", exchanging), dtype_name(dtype), after);
}

std::string write_optimizer_program(std::int64_t parameters, DType weights) {
  const bool is_narrow = weights != DType::f32;
  return fmt::format(
      "dims P = {}\n"
      "state w: f32[P]   state m: f32[P]   state v: f32[P]   data g: {}[P]\n"
      "m2: f32[P] replaces m = 0.9 * m + 0.1 * g\n"
      "v2: f32[P] replaces v = 0.95 * v + 0.05 * g * g\n"
      "w2: f32[P] replaces w = w - 0.0001 * (m2 / (sqrt(v2) + 1e-8) + 0.1 * w)\n{}",
      parameters, dtype_name(weights), is_narrow ? fmt::format("wn: {}[P] = w2\n", dtype_name(weights)) : "");
}

}  // namespace ridge
