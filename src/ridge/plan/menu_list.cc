#include "ridge/plan/menu_list.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ridge/base/csv.h"
#include "ridge/ops/gated/config.h"

namespace ridge {
namespace {

using ops::MatmulConfig;
using tile::Major;

std::string roles(const MatmulConfig& c) {
  if (c.swap) return "swapped";
  if (c.roles == tile::Roles::pingpong) return "pingpong";
  return c.consumers > 1 ? "cooperative" : "single";
}

// As D = A * B has them, before a swap.
std::string layouts(const MatmulConfig& c) {
  const Major a = c.swap ? c.b : c.a, b = c.swap ? c.a : c.b;
  return std::string(a == Major::k ? "k" : "m") + (b == Major::k ? "k" : "n");
}

}  // namespace

std::string menu_name(int row) {
  const MatmulConfig& c = ops::sm90_menu[static_cast<std::size_t>(row)];
  return fmt::format("sm90_{}x{}x{}_{}{}{}", c.m, c.n, c.k, roles(c), layouts(c) == "kk" ? "" : "_" + layouts(c),
                     c.cluster() == 1 ? "" : fmt::format("_cluster{}x{}", c.cluster_m, c.cluster_n));
}

std::string plan_name(const ops::cuda::MatmulPlan& plan) {
  using Path = ops::cuda::MatmulPlan::Path;
  return plan.path == Path::tiles ? menu_name(plan.row) : plan.path == Path::dots ? "sm90_dots" : "sm90_plain";
}

KCut k_cut(tile::Cuts cuts) {
  switch (cuts) {
    case tile::Cuts::pieces: return {"pieces", "the last piece of k adds all"};
    case tile::Cuts::shared: return {"shared", "the pieces of k are a cluster's blocks"};
    case tile::Cuts::streamed: return {"streamed", "every block has an equal run of all stages"};
    case tile::Cuts::gathered: return {"gathered", "the pieces of k wait for each other"};
  }
  return {};
}
KCut k_cut(const ops::cuda::MatmulPlan& plan) {
  const bool is_cut =
      plan.path == ops::cuda::MatmulPlan::Path::tiles && (plan.pieces > 1 || plan.cuts == tile::Cuts::streamed);
  return is_cut ? k_cut(plan.cuts) : KCut{};
}

std::string gated_name(int row) {
  const MatmulConfig& c = ops::sm90_gated_menu[static_cast<std::size_t>(row)];
  return fmt::format("sm90_gated_{}x{}x{}_{}{}", c.m, c.n, c.k, roles(c), layouts(c) == "kk" ? "" : "_" + layouts(c));
}

std::vector<MenuEntry> menu_list() {
  std::vector<MenuEntry> out;
  for (int row = 0; row < static_cast<int>(ops::sm90_menu.size()); ++row) {
    const MatmulConfig& c = ops::sm90_menu[static_cast<std::size_t>(row)];
    out.push_back({.name = menu_name(row),
                   .row = row,
                   .m = c.m,
                   .n = c.n,
                   .k = c.k,
                   .stages = c.stages,
                   .groups = c.consumers,
                   .roles = roles(c),
                   .layouts = layouts(c),
                   .registers = {},
                   .shared_bytes = {}});
  }
  for (const CsvLine& line : read_csv(compiled_menu())) {  // type,row,registers,shared_bytes,…
    if (line.cells.size() < 4 || line.cells[0].text != "bf16") continue;
    const auto row = static_cast<std::size_t>(std::strtoul(line.cells[1].text.c_str(), nullptr, 10));
    if (row >= out.size()) continue;
    out[row].registers = std::atoi(line.cells[2].text.c_str());
    out[row].shared_bytes = std::atoi(line.cells[3].text.c_str());
  }
  return out;
}

}  // namespace ridge
