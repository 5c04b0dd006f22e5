#include "ridge/plan/model/training_collectives.h"

#include <fmt/format.h>

#include "ridge/base/ceil_div.h"

namespace ridge {

std::string write_data_collective(DataCollective kind, std::int64_t elements, DType dtype, std::int64_t data_ranks,
                                  std::int64_t tensor_ranks) {
  // Mesh axis C has the data ranks. Chips that are consecutive along the last axis have consecutive numbers.
  const std::string part = tensor_ranks > 1 ? "N_T" : "N", divided = tensor_ranks > 1 ? "N_TC" : "N_C";
  const bool is_gather = kind == DataCollective::all_gather;
  const std::string &before = is_gather ? divided : part,
                    &after = kind == DataCollective::reduce_scatter ? divided : part;
  const std::int64_t whole = ceil_div(elements, data_ranks) * data_ranks * tensor_ranks;
  return fmt::format("mesh C = {}{}\ndims N = {}\ndata part: {}[{}]{}\nall: {}[{}] = part\n", data_ranks,
                     tensor_ranks > 1 ? fmt::format(", T = {}", tensor_ranks) : "", whole, dtype_name(dtype), before,
                     is_gather ? "" : "{U_C}", dtype_name(dtype), after);
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
