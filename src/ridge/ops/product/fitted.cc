#include "ridge/ops/product/fitted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ridge/base/check.h"
#include "ridge/device/kernel_store.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/product/describe.h"

namespace ridge::ops::cuda {

const std::array<NamedConstant, 44> named_constants{{
    {"slowdown", &Constants::slowdown},
    {"memory", &Constants::memory},
    {"memory_per_block", &Constants::memory_per_block},
    {"l2_again", &Constants::l2_again},
    {"l2_all", &Constants::l2_all},
    {"l2_power", &Constants::l2_power},
    {"l2_straight", &Constants::l2_straight},
    {"l2_swapped", &Constants::l2_swapped},
    {"arriving", &Constants::arriving},
    {"reads_a", &Constants::reads_a},
    {"least_stage", &Constants::least_stage},
    {"line64", &Constants::line64},
    {"line32", &Constants::line32},
    {"line16", &Constants::line16},
    {"across", &Constants::across},
    {"narrow_line", &Constants::narrow_line},
    {"both_wait", &Constants::both_wait},
    {"stage_power", &Constants::stage_power},
    {"launch", &Constants::launch},
    {"first_load", &Constants::first_load},
    {"tile_end", &Constants::tile_end},
    {"tile_end_alone", &Constants::tile_end_alone},
    {"box", &Constants::box},
    {"element_box", &Constants::element_box},
    {"split", &Constants::split},
    {"split_sums", &Constants::split_sums},
    {"split_batch", &Constants::split_batch},
    {"gather", &Constants::gather},
    {"gather_sums", &Constants::gather_sums},
    {"gather_turn", &Constants::gather_turn},
    {"share", &Constants::share},
    {"share_step", &Constants::share_step},
    {"next_cluster", &Constants::next_cluster},
    {"cluster_stage", &Constants::cluster_stage},
    {"cluster_block", &Constants::cluster_block},
    {"cluster_start", &Constants::cluster_start},
    {"eights", &Constants::eights},
    {"stream", &Constants::stream},
    {"copy", &Constants::copy},
    {"copied", &Constants::copied},
    {"under_copy", &Constants::under_copy},
    {"overlap", &Constants::overlap},
    {"beside", &Constants::beside},
    {"beside_prefetch", &Constants::beside_prefetch},
}};

const std::array<std::string_view, plan_features> feature_names{
    "form_s",   "waves",  "last_wave",  "whole_waves", "stages_of_split", "stages",        "tiles",      "tile_m",
    "tile_n",   "tile_k", "consumers",  "pingpong",    "majors",          "swap",          "cluster_m",  "cluster_n",
    "ring_k",   "splits", "split_mode", "granule_a",   "granule_b",       "narrow",        "copies",     "prefetch",
    "computed", "m",      "n",          "k",           "intensity",       "minimum_bytes", "clusters_m", "clusters_n",
    "asked"};

namespace {

constexpr const char* constants_source = "data/models/product_constants.csv";
constexpr const char* trees_source = "data/models/product_trees.csv";

Error wrong(const FittedFile& file, const CsvLine& line, std::string message) {
  return placed(input_error(std::move(message), "tools/fit_models makes these files"), file.source, line,
                line.cells[0]);
}

Status made_for_this_menu(const FittedFile& file) {
  const auto menu = file.facts.find("menu");
  const std::string now = fmt::format("{:016x}", menu_fingerprint());
  if (menu != file.facts.end() && menu->second == now) return Done{};
  return input_error(fmt::format("'{}' was fitted for kernel configurations {}, this build has {}", file.source,
                                 menu == file.facts.end() ? "" : menu->second, now),
                     "time the new configurations and fit again: docs/fit.md");
}

// Selects the initial constants (`initial`) or those of each bound (`fitted`).
enum class Column : std::uint8_t { start, fitted };
Status read_constants(std::string_view csv, ProductModel& model, Column column = Column::fitted) {
  const auto file = read_fitted(csv, constants_source, "constant,unit,start,bytes,results,multiplies,meaning");
  if (!file) return file.error();
  if (file->lines.size() != named_constants.size())
    return input_error(fmt::format("'{}': expected {} constants, found {}", constants_source, named_constants.size(),
                                   file->lines.size()));
  for (std::size_t i = 0; i < named_constants.size(); ++i) {
    const CsvLine& line = file->lines[i];
    if (line.cells[0].text != named_constants[i].name)
      return wrong(*file, line, fmt::format("expected {}, found '{}'", named_constants[i].name, line.cells[0].text));
    for (std::size_t bound = 0; bound < bounds; ++bound) {
      const auto number = number_in(*file, line, column == Column::start ? 2 : 3 + bound);
      if (!number) return number.error();
      model.constants[bound].*(named_constants[i].place) = *number;
    }
  }
  return Done{};
}

// Reads a number and skips the separator after it. Returns false if there is no number.
template <class Number> bool take(std::string_view& text, Number& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

bool read_edges(std::string_view text, Edges& edges) {
  edges.fill(std::numeric_limits<float>::max());
  std::size_t count = 0;
  for (; !text.empty(); ++count)
    if (count == edges.size() || !take(text, edges[count])) return false;
  return std::is_sorted(edges.begin(), edges.end());
}

// Links must point to later nodes, so that every walk ends.
bool read_tree(std::string_view nodes, std::string_view leaves, Tree& tree) {
  for (int i = 0; i < tree_leaves - 1; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!take(nodes, tree.feature[at]) || !take(nodes, tree.edge[at]) || !take(nodes, tree.left[at]) ||
        !take(nodes, tree.right[at]) || tree.feature[at] >= plan_features || tree.edge[at] >= feature_edges)
      return false;
    for (const int to : {tree.left[at], tree.right[at]})
      if (to < 0 ? to < -tree_leaves : to <= i || to >= tree_leaves - 1) return false;
  }
  for (std::int16_t& leaf : tree.leaf)
    if (!take(leaves, leaf)) return false;
  return nodes.empty() && leaves.empty();
}

Status read_trees(std::string_view csv, ProductModel& model) {
  const auto file = read_fitted(csv, trees_source, "what,nodes,leaves");
  if (!file) return file.error();
  if (Status made = made_for_this_menu(*file); !made) return made;
  std::size_t features = 0;
  for (const CsvLine& line : file->lines) {
    const std::string& what = line.cells[0].text;
    if (what == "edges") {
      if (features == feature_names.size() || line.cells[1].text != feature_names[features] ||
          !read_edges(line.cells[2].text, model.edges[features]))
        return wrong(*file, line, "expected a feature that plans have, in their order, and its edges, ascending");
      ++features;
    } else if (what != "tree" || !read_tree(line.cells[1].text, line.cells[2].text, model.trees.emplace_back())) {
      return wrong(*file, line, "expected edges or a tree: 31 nodes feature:edge:left:right and 32 leaves");
    }
  }
  if (features != feature_names.size())
    return input_error(
        fmt::format("'{}': expected edges of {} features, found {}", trees_source, feature_names.size(), features));
  return Done{};
}

}  // namespace

Result<ProductModel> parse_product_model(const ProductFiles& files) {
  ProductModel model;
  for (const Status& read : {read_constants(files.constants, model), read_trees(files.trees, model)})
    if (!read) return read.error();
  return model;
}

Result<ProductModel> parse_first_constants(std::string_view constants) {
  ProductModel model;
  if (const Status read = read_constants(constants, model, Column::start); !read) return read.error();
  return model;
}

const ProductModel& product_model() {
  static const ProductModel model = [] {
    auto parsed = parse_product_model({product_constants_csv(), product_trees_csv()});
    RIDGE_CHECK(parsed, parsed.error().text());
    return *std::move(parsed);
  }();
  return model;
}

std::uint64_t menu_fingerprint() {
  std::string text;
  for (const MatmulConfig& c : sm90_menu) {
    if (c.grouped) continue;  // Only the closed form predicts these; they have no timings
    text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", c.m, c.n, c.k, c.stages, c.consumers,
                        static_cast<int>(c.roles), static_cast<int>(c.a), static_cast<int>(c.b), c.swap, c.staging,
                        c.cluster_m, c.cluster_n);
  }
  return fingerprint(text);
}

}  // namespace ridge::ops::cuda
