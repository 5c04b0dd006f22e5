#include "ridge/plan/kernel_list.h"

#include <cstdlib>

#include "ridge/base/csv.h"
#include "ridge/ops/product/describe.h"

namespace ridge {

std::vector<KernelListEntry> list_kernels() {
  std::vector<KernelListEntry> out;
  for (int config = 0; config < static_cast<int>(ops::sm90_kernel_configs.size()); ++config) {
    const ops::MatmulConfig& c = ops::sm90_kernel_configs[config];
    out.push_back({.name = ops::config_name(config),
                   .config = config,
                   .m = c.m,
                   .n = c.n,
                   .k = c.k,
                   .stages = c.stages,
                   .consumer_warpgroups = c.consumers,
                   .roles = ops::roles_name(c),
                   .layouts = ops::layouts_name(c),
                   .registers = {},
                   .shared_bytes = {}});
  }
  for (const CsvLine& line : read_csv(compiled_kernels_csv())) {  // type,config,registers,shared_bytes,…
    if (line.cells.size() < 4 || line.cells[0].text != "bf16") continue;
    const std::size_t config = std::strtoul(line.cells[1].text.c_str(), nullptr, 10);
    if (config >= out.size()) continue;
    out[config].registers = std::atoi(line.cells[2].text.c_str());
    out[config].shared_bytes = std::atoi(line.cells[3].text.c_str());
  }
  return out;
}

}  // namespace ridge
