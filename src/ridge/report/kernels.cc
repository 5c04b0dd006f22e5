// The menu of CUDA kernels, for eyes and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/report/report.h"

namespace ridge {
namespace {
using Json = nlohmann::ordered_json;

std::string or_dash(const std::optional<int>& value) { return value ? std::to_string(*value) : "-"; }

Json entry_json(const MenuEntry& e) {
  Json row{{"name", e.name}, {"config", e.config}, {"target", "sm_90a"}};
  row["tile"] = {{"m", e.m}, {"n", e.n}, {"k", e.k}};
  row["stages"] = e.stages;
  row["roles"] = e.roles;
  row["warpgroups"] = e.groups;
  row["a_along"] = e.layouts.substr(0, 1);
  row["b_along"] = e.layouts.substr(1);
  row["registers"] = e.registers ? Json(*e.registers) : Json(nullptr);
  row["shared_bytes"] = e.shared_bytes ? Json(*e.shared_bytes) : Json(nullptr);
  return row;
}
}  // namespace

std::string render_kernels_text(const std::vector<MenuEntry>& menu, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {"name", "tile", "stages", "roles", "warpgroups", "A, B along", "registers", "shared bytes"}};
  for (const MenuEntry& e : menu)
    rows.push_back({e.name, fmt::format("{}x{}x{}", e.m, e.n, e.k), std::to_string(e.stages), e.roles,
                    std::to_string(e.groups), fmt::format("{}, {}", e.layouts[0], e.layouts[1]), or_dash(e.registers),
                    or_dash(e.shared_bytes)});
  const std::string all = aligned(rows, {false, true, true, false, true, false, true, true});
  const std::size_t end = all.find('\n');
  return (style.color ? "\x1b[1m" + all.substr(0, end) + "\x1b[0m" : all.substr(0, end)) + all.substr(end) +
         "registers a thread at launch, shared memory a block, as compiled for bf16 on sm_90a; f16 has the same menu\n";
}

std::string render_kernels_json(const std::vector<MenuEntry>& menu) {
  Json out{{"schema", "ridge.kernels/2"}, {"kernels", Json::array()}};
  for (const MenuEntry& e : menu) out["kernels"].push_back(entry_json(e));
  return out.dump(2) + "\n";
}

std::string render_kernel_json(const KernelCode& code) {
  Json row = entry_json(code.entry);
  row["dtype"] = code.dtype;
  row[code.kind] = code.text;
  return Json{{"schema", "ridge.kernels/2"}, {"kernels", Json::array({std::move(row)})}}.dump(2) + "\n";
}

}  // namespace ridge
