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
    {"slowdown", &ClosedFormConstants::slowdown},
    {"memory", &ClosedFormConstants::memory},
    {"memory_per_block", &ClosedFormConstants::memory_per_block},
    {"l2_again", &ClosedFormConstants::l2_again},
    {"l2_all", &ClosedFormConstants::l2_all},
    {"l2_power", &ClosedFormConstants::l2_power},
    {"l2_straight", &ClosedFormConstants::l2_straight},
    {"l2_swapped", &ClosedFormConstants::l2_swapped},
    {"arriving", &ClosedFormConstants::arriving},
    {"reads_a", &ClosedFormConstants::reads_a},
    {"least_stage", &ClosedFormConstants::least_stage},
    {"line64", &ClosedFormConstants::line64},
    {"line32", &ClosedFormConstants::line32},
    {"line16", &ClosedFormConstants::line16},
    {"across", &ClosedFormConstants::across},
    {"narrow_line", &ClosedFormConstants::narrow_line},
    {"both_wait", &ClosedFormConstants::both_wait},
    {"stage_power", &ClosedFormConstants::stage_power},
    {"launch", &ClosedFormConstants::launch},
    {"first_load", &ClosedFormConstants::first_load},
    {"tile_end", &ClosedFormConstants::tile_end},
    {"tile_end_alone", &ClosedFormConstants::tile_end_alone},
    {"box", &ClosedFormConstants::box},
    {"element_box", &ClosedFormConstants::element_box},
    {"split", &ClosedFormConstants::split},
    {"split_sums", &ClosedFormConstants::split_sums},
    {"split_batch", &ClosedFormConstants::split_batch},
    {"gather", &ClosedFormConstants::gather},
    {"gather_sums", &ClosedFormConstants::gather_sums},
    {"gather_turn", &ClosedFormConstants::gather_turn},
    {"share", &ClosedFormConstants::share},
    {"share_step", &ClosedFormConstants::share_step},
    {"next_cluster", &ClosedFormConstants::next_cluster},
    {"cluster_stage", &ClosedFormConstants::cluster_stage},
    {"cluster_block", &ClosedFormConstants::cluster_block},
    {"cluster_start", &ClosedFormConstants::cluster_start},
    {"eights", &ClosedFormConstants::eights},
    {"stream", &ClosedFormConstants::stream},
    {"copy", &ClosedFormConstants::copy},
    {"copied", &ClosedFormConstants::copied},
    {"under_copy", &ClosedFormConstants::under_copy},
    {"overlap", &ClosedFormConstants::overlap},
    {"beside", &ClosedFormConstants::beside},
    {"beside_prefetch", &ClosedFormConstants::beside_prefetch},
}};

const std::array<std::string_view, plan_feature_count> feature_names{
    "form_s",   "waves",  "last_wave",  "whole_waves", "stages_of_split", "stages",        "tiles",      "tile_m",
    "tile_n",   "tile_k", "consumers",  "pingpong",    "majors",          "swap",          "cluster_m",  "cluster_n",
    "ring_k",   "splits", "split_mode", "granule_a",   "granule_b",       "narrow",        "copies",     "prefetch",
    "computed", "m",      "n",          "k",           "intensity",       "minimum_bytes", "clusters_m", "clusters_n",
    "asked"};

namespace {

constexpr const char* constants_source = "data/models/product_constants.csv";
constexpr const char* trees_source = "data/models/product_trees.csv";

Error file_error(const FittedFile& file, const CsvLine& line, std::string message) {
  return error_at_cell(input_error(std::move(message), "tools/fit_models makes these files"), file.source, line,
                       line.cells[0]);
}

Status check_fingerprint(const FittedFile& file) {
  const auto fingerprint_line = file.properties.find("menu");
  const std::string now = fmt::format("{:016x}", kernel_configs_fingerprint());
  if (fingerprint_line != file.properties.end() && fingerprint_line->second == now) return Done{};
  return input_error(fmt::format("'{}' was fitted for kernel configurations {}, this build has {}", file.source,
                                 fingerprint_line == file.properties.end() ? "" : fingerprint_line->second, now),
                     "time the new configurations and fit again: docs/fit.md");
}

// Selects the initial constants (`initial`) or those of each bound (`fitted`).
enum class Column : std::uint8_t { initial, fitted };
Status read_constants(std::string_view csv, ProductModel& model, Column column = Column::fitted) {
  const auto file = read_fitted_file(csv, constants_source, "constant,unit,start,bytes,results,multiplies,meaning");
  if (!file) return file.error();
  if (file->lines.size() != named_constants.size())
    return input_error(fmt::format("'{}': expected {} constants, found {}", constants_source, named_constants.size(),
                                   file->lines.size()));
  for (std::size_t i = 0; i < named_constants.size(); ++i) {
    const CsvLine& line = file->lines[i];
    if (line.cells[0].text != named_constants[i].name)
      return file_error(*file, line,
                        fmt::format("expected {}, found '{}'", named_constants[i].name, line.cells[0].text));
    for (std::size_t bound = 0; bound < bound_count; ++bound) {
      const auto number = parse_cell(*file, line, column == Column::initial ? 2 : 3 + bound);
      if (!number) return number.error();
      model.constants[bound].*(named_constants[i].member) = *number;
    }
  }
  return Done{};
}

// Reads a number and skips the separator after it. Returns false if there is no number.
template <class Number> bool parse_number(std::string_view& text, Number& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

bool parse_edges(std::string_view text, BinEdges& edges) {
  edges.fill(std::numeric_limits<float>::max());
  std::size_t count = 0;
  for (; !text.empty(); ++count)
    if (count == edges.size() || !parse_number(text, edges[count])) return false;
  return std::is_sorted(edges.begin(), edges.end());
}

// Links must point to later nodes, so that every walk ends.
bool parse_tree(std::string_view nodes, std::string_view leaves, RegressionTree& tree) {
  for (int i = 0; i < tree_leaves - 1; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (!parse_number(nodes, tree.feature[at]) || !parse_number(nodes, tree.edge[at]) ||
        !parse_number(nodes, tree.left[at]) || !parse_number(nodes, tree.right[at]) ||
        tree.feature[at] >= plan_feature_count || tree.edge[at] >= feature_edges)
      return false;
    for (const int to : {tree.left[at], tree.right[at]})
      if (to < 0 ? to < -tree_leaves : to <= i || to >= tree_leaves - 1) return false;
  }
  for (std::int16_t& leaf : tree.leaf)
    if (!parse_number(leaves, leaf)) return false;
  return nodes.empty() && leaves.empty();
}

Status read_trees(std::string_view csv, ProductModel& model) {
  const auto file = read_fitted_file(csv, trees_source, "what,nodes,leaves");
  if (!file) return file.error();
  if (Status made = check_fingerprint(*file); !made) return made;
  std::size_t features = 0;
  for (const CsvLine& line : file->lines) {
    const std::string& what = line.cells[0].text;
    if (what == "edges") {
      if (features == feature_names.size() || line.cells[1].text != feature_names[features] ||
          !parse_edges(line.cells[2].text, model.edges[features]))
        return file_error(*file, line, "expected a feature that plans have, in their order, and its edges, ascending");
      ++features;
    } else if (what != "tree" || !parse_tree(line.cells[1].text, line.cells[2].text, model.trees.emplace_back())) {
      return file_error(*file, line, "expected edges or a tree: 31 nodes feature:edge:left:right and 32 leaves");
    }
  }
  if (features != feature_names.size())
    return input_error(
        fmt::format("'{}': expected edges of {} features, found {}", trees_source, feature_names.size(), features));
  return Done{};
}

}  // namespace

Result<ProductModel> parse_product_model(const ProductModelFiles& files) {
  ProductModel model;
  for (const Status& read : {read_constants(files.constants, model), read_trees(files.trees, model)})
    if (!read) return read.error();
  return model;
}

Result<ProductModel> parse_initial_constants(std::string_view constants) {
  ProductModel model;
  if (const Status read = read_constants(constants, model, Column::initial); !read) return read.error();
  return model;
}

const ProductModel& product_model() {
  static const ProductModel model = [] {
    auto parsed = parse_product_model({product_constants_csv(), product_trees_csv()});
    RIDGE_CHECK(parsed, parsed.error().to_string());
    return *std::move(parsed);
  }();
  return model;
}

std::uint64_t kernel_configs_fingerprint() {
  std::string text;
  for (const MatmulConfig& c : sm90_kernel_configs) {
    if (c.grouped) continue;  // Only the closed form predicts these; they have no timings
    text += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", c.m, c.n, c.k, c.stages, c.consumers,
                        static_cast<int>(c.roles), static_cast<int>(c.a), static_cast<int>(c.b), c.swap, c.staging,
                        c.cluster_m, c.cluster_n);
  }
  return device::text_fingerprint(text);
}

}  // namespace ridge::ops::cuda
