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
    {"slowdown", &ClosedFormConstants::power_slowdown},
    {"memory", &ClosedFormConstants::memory_share},
    {"memory_per_block", &ClosedFormConstants::memory_per_block},
    {"l2_again", &ClosedFormConstants::l2_repeat_share},
    {"l2_all", &ClosedFormConstants::l2_total_share},
    {"l2_power", &ClosedFormConstants::l2_overlap_power},
    {"l2_straight", &ClosedFormConstants::unswapped_l2_rate},
    {"l2_swapped", &ClosedFormConstants::swapped_l2_rate},
    {"arriving", &ClosedFormConstants::arrival_rate},
    {"reads_a", &ClosedFormConstants::read_a_cycles},
    {"least_stage", &ClosedFormConstants::min_stage_cycles},
    {"line64", &ClosedFormConstants::line64_factor},
    {"line32", &ClosedFormConstants::line32_factor},
    {"line16", &ClosedFormConstants::line16_factor},
    {"across", &ClosedFormConstants::mn_major_factor},
    {"narrow_line", &ClosedFormConstants::narrow_line_cycles},
    {"both_wait", &ClosedFormConstants::cooperative_factor},
    {"stage_power", &ClosedFormConstants::stage_overlap_power},
    {"launch", &ClosedFormConstants::launch_cycles},
    {"first_load", &ClosedFormConstants::first_load_cycles},
    {"tile_end", &ClosedFormConstants::tile_end_cycles},
    {"tile_end_alone", &ClosedFormConstants::exposed_end_cycles},
    {"box", &ClosedFormConstants::store_box_cycles},
    {"element_box", &ClosedFormConstants::element_store_factor},
    {"split", &ClosedFormConstants::split_k_cycles},
    {"split_sums", &ClosedFormConstants::split_k_sum_cycles},
    {"split_batch", &ClosedFormConstants::split_k_batch_cycles},
    {"gather", &ClosedFormConstants::cooperative_cycles},
    {"gather_sums", &ClosedFormConstants::cooperative_sum_cycles},
    {"gather_turn", &ClosedFormConstants::cooperative_step_cycles},
    {"share", &ClosedFormConstants::cluster_split_cycles},
    {"share_step", &ClosedFormConstants::cluster_split_step_cycles},
    {"next_cluster", &ClosedFormConstants::next_cluster_cycles},
    {"cluster_stage", &ClosedFormConstants::cluster_stage_cycles},
    {"cluster_block", &ClosedFormConstants::cluster_block_cycles},
    {"cluster_start", &ClosedFormConstants::cluster_start_cycles},
    {"eights", &ClosedFormConstants::cluster8_factor},
    {"stream", &ClosedFormConstants::stream_k_cycles},
    {"copy", &ClosedFormConstants::copy_cycles},
    {"copied", &ClosedFormConstants::copy_memory_share},
    {"under_copy", &ClosedFormConstants::hidden_copy_share},
    {"overlap", &ClosedFormConstants::wave_overlap_power},
    {"beside", &ClosedFormConstants::launch_overlap_cycles},
    {"beside_prefetch", &ClosedFormConstants::prefetch_overlap_cycles},
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
enum class ConstantColumn : std::uint8_t { initial, fitted };
Status read_constants(std::string_view csv, ProductModel& model, ConstantColumn column = ConstantColumn::fitted) {
  RIDGE_TRY(file, parse_fitted_file(csv, constants_source, "constant,unit,start,bytes,results,multiplies,meaning"));
  if (file.lines.size() != named_constants.size())
    return input_error(fmt::format("'{}': expected {} constants, found {}", constants_source, named_constants.size(),
                                   file.lines.size()));
  for (std::size_t i = 0; i < named_constants.size(); ++i) {
    const CsvLine& line = file.lines[i];
    if (line.cells[0].text != named_constants[i].name)
      return file_error(file, line,
                        fmt::format("expected {}, found '{}'", named_constants[i].name, line.cells[0].text));
    for (std::size_t bound = 0; bound < bound_count; ++bound) {
      RIDGE_TRY(number, parse_cell(file, line, column == ConstantColumn::initial ? 2 : 3 + bound));
      model.constants[bound].*(named_constants[i].member) = number;
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
  for (int i = 0; i < leaves_per_tree - 1; ++i) {
    const std::size_t at = i;
    if (!parse_number(nodes, tree.feature[at]) || !parse_number(nodes, tree.edge[at]) ||
        !parse_number(nodes, tree.left[at]) || !parse_number(nodes, tree.right[at]) ||
        tree.feature[at] >= plan_feature_count || tree.edge[at] >= max_edges_per_feature)
      return false;
    for (const int to : {tree.left[at], tree.right[at]})
      if (to < 0 ? to < -leaves_per_tree : to <= i || to >= leaves_per_tree - 1) return false;
  }
  for (std::int16_t& leaf : tree.leaf)
    if (!parse_number(leaves, leaf)) return false;
  return nodes.empty() && leaves.empty();
}

Status read_trees(std::string_view csv, ProductModel& model) {
  RIDGE_TRY(file, parse_fitted_file(csv, trees_source, "what,nodes,leaves"));
  RIDGE_TRY_STATUS(check_fingerprint(file));
  std::size_t features = 0;
  for (const CsvLine& line : file.lines) {
    const std::string& what = line.cells[0].text;
    if (what == "edges") {
      if (features == feature_names.size() || line.cells[1].text != feature_names[features] ||
          !parse_edges(line.cells[2].text, model.edges[features]))
        return file_error(file, line, "expected a feature that plans have, in their order, and its edges, ascending");
      ++features;
    } else if (what != "tree" || !parse_tree(line.cells[1].text, line.cells[2].text, model.trees.emplace_back())) {
      return file_error(file, line, "expected edges or a tree: 31 nodes feature:edge:left:right and 32 leaves");
    }
  }
  if (features != feature_names.size())
    return input_error(
        fmt::format("'{}': expected edges of {} features, found {}", trees_source, feature_names.size(), features));
  return Done{};
}

}  // namespace

Result<ProductModel> parse_product_model(const ProductModelCsv& files) {
  ProductModel model;
  RIDGE_TRY_STATUS(read_constants(files.constants, model));
  RIDGE_TRY_STATUS(read_trees(files.trees, model));
  return model;
}

Result<ProductModel> parse_initial_constants(std::string_view constants) {
  ProductModel model;
  RIDGE_TRY_STATUS(read_constants(constants, model, ConstantColumn::initial));
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
