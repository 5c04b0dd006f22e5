// The list of CUDA kernels, as text and JSON.
#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/report.h"
#include "ridge/report/table.h"

namespace ridge {
namespace {

Json kernel_json(const KernelListEntry& e) {
  Json row{{"name", e.name}, {"config", e.config}, {"target", "sm_90a"}};
  row["tile"] = {{"m", e.m}, {"n", e.n}, {"k", e.k}};
  row["stages"] = e.stages;
  row["roles"] = e.roles;
  row["warpgroups"] = e.consumer_warpgroups;
  row["a_along"] = e.layouts.substr(0, 1);
  row["b_along"] = e.layouts.substr(1);
  row["registers"] = or_null(e.registers);
  row["shared_bytes"] = or_null(e.shared_bytes);
  return row;
}
}  // namespace

std::string render_kernels_text(const std::vector<KernelListEntry>& kernels, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {"name", "tile", "stages", "roles", "warpgroups", "A, B along", "registers", "shared bytes"}};
  for (const KernelListEntry& e : kernels)
    rows.push_back({e.name, fmt::format("{}x{}x{}", e.m, e.n, e.k), std::to_string(e.stages), e.roles,
                    std::to_string(e.consumer_warpgroups), fmt::format("{}, {}", e.layouts[0], e.layouts[1]),
                    or_dash(e.registers), or_dash(e.shared_bytes)});
  return text_table(rows,
                    {.right = {false, true, true, false, true, false, true, true},
                     .omit_first = {"A, B along", "warpgroups", "roles", "stages", "registers"}},
                    style) +
         "registers per thread at launch, shared memory per block; compiled for bf16 on sm_90a; f16 has the same "
         "kernels\n";
}

std::string render_kernels_json(const std::vector<KernelListEntry>& kernels) {
  Json out{{"schema", "ridge.kernels/2"}, {"kernels", Json::array()}};
  for (const KernelListEntry& e : kernels) out["kernels"].push_back(kernel_json(e));
  return out.dump(2) + "\n";
}

std::string render_kernel_json(const KernelCode& code) {
  Json row = kernel_json(code.entry);
  row["dtype"] = code.dtype;
  row[code.kind] = code.text;
  return Json{{"schema", "ridge.kernels/2"}, {"kernels", Json::array({std::move(row)})}}.dump(2) + "\n";
}

}  // namespace ridge
