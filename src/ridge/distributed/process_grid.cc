#include "ridge/distributed/process_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/distributed/partition.h"
#include "ridge/distributed/shard.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

constexpr std::int64_t max_grid_devices = 4096;

// Returns the real-valued grid of `devices` devices that moves the fewest words. Short sides may stay unsplit (1).
std::array<double, 3> optimal_real_grid(double devices, const ProductSize& dims) {
  const std::array<double, 3> d{static_cast<double>(dims.m), static_cast<double>(dims.n), static_cast<double>(dims.k)};
  std::array<std::size_t, 3> order{0, 1, 2};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return d[a] > d[b]; });
  const double l = d[order[0]], c = d[order[1]], s = d[order[2]];
  std::array<double, 3> p{1, 1, 1};  // parts of the longest, middle and shortest side
  if (devices <= l / c) {
    p = {devices, 1, 1};
  } else if (devices <= l * c / (s * s)) {
    p = {std::sqrt(devices * l / c), std::sqrt(devices * c / l), 1};
  } else {
    const double side = std::cbrt(l * c * s / devices);
    p = {l / side, c / side, s / side};
  }
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < 3; ++i) out[order[i]] = p[i];
  return out;
}

std::string largest_dim(const std::vector<std::string>& dims, const Bindings& sizes) {
  const auto max_extent = std::max_element(
      dims.begin(), dims.end(), [&](const std::string& a, const std::string& b) { return sizes.at(a) < sizes.at(b); });
  return max_extent == dims.end() ? "" : *max_extent;
}

class ProductDistributor {
 public:
  ProductDistributor(const Program& program, const Bindings& sizes)
      : program_(program),
        sizes_(sizes),
        c_(std::get<Contraction>(program.statements[0].op)),
        split_dims_{largest_dim(c_.left_free, sizes), largest_dim(c_.right_free, sizes),
                    largest_dim(c_.contracted, sizes)} {
    const std::vector<std::string> taken = program.dim_names();
    for (const char letter : std::string("XYZPQRSTUVWABCDEFGHIJKLMNO"))
      if (!contains(taken, std::string(1, letter))) letters_ += letter;
  }

  ProductSize product_dims() const {
    const auto all = [&](const std::vector<std::string>& dims) {
      std::int64_t out = 1;
      for (const std::string& dim : dims) out *= sizes_.at(dim);
      return out;
    };
    return {all(c_.left_free), all(c_.right_free), all(c_.contracted) * c_.literal_contracted};
  }

  // True if every split side has a dimension that is long enough, and three mesh letters are free.
  bool is_feasible(const ProcessGrid& grid) const {
    const std::array<std::int64_t, 3> parts{grid.m, grid.n, grid.k};
    for (std::size_t i = 0; i < 3; ++i)
      if (parts[i] > 1 && (split_dims_[i].empty() || sizes_.at(split_dims_[i]) < parts[i])) return false;
    return letters_.size() >= 3;
  }

  std::string program_text(const ProcessGrid& grid) const {
    const std::array<std::string, 3> x{grid.m > 1 ? letters_.substr(0, 1) : "", grid.n > 1 ? letters_.substr(1, 1) : "",
                                       grid.k > 1 ? letters_.substr(2, 1) : ""};
    std::string mesh;
    const std::array<std::int64_t, 3> parts{grid.m, grid.n, grid.k};
    for (std::size_t i = 0; i < 3; ++i)
      if (parts[i] > 1) mesh += fmt::format("{}{} = {}", mesh.empty() ? "mesh " : ", ", x[i], parts[i]);
    std::string dims;
    for (const Dimension& dim : program_.dims)
      dims += fmt::format("{}{} = {}", dims.empty() ? "dims " : ", ", dim.name, sizes_.at(dim.name));
    const auto [left, left_all] = stored_and_gathered_layouts(c_.left, {x[0], "", x[2]}, x[1]);
    const auto [right, right_all] = stored_and_gathered_layouts(c_.right, {"", x[1], x[2]}, x[0]);
    const auto [result, made] = stored_and_gathered_layouts(c_.result, {x[0], x[1], ""}, x[2]);
    std::string out = dims + "\n" + mesh + "\n" + format_declaration(c_.left, left) + "\n";
    if (c_.right != c_.left) out += format_declaration(c_.right, right) + "\n";
    const std::string a = add_gather(c_.left, left, left_all, out);
    const std::string b = c_.right == c_.left ? a : add_gather(c_.right, right, right_all, out);
    return out + format_declaration(c_.result, result) + " = " + a + " * " + b + "\n";
  }

 private:
  const Tensor& tensor_at(int t) const { return program_.tensors[t]; }

  // Returns the stored layout, whose longest axis is also split over `extra_axis`, and the layout gathered over that.
  std::pair<Layout, Layout> stored_and_gathered_layouts(int t, const std::array<std::string, 3>& cut,
                                                        const std::string& extra_axis) const {
    Layout gathered_layout{.mesh_axes = std::vector<std::string>(tensor_at(t).axes.size())};
    std::size_t longest = 0;
    std::int64_t max_extent = 0;
    for (std::size_t i = 0; i < gathered_layout.mesh_axes.size(); ++i) {
      const Axis& axis = tensor_at(t).axes[i];
      for (std::size_t side = 0; side < 3; ++side)
        if (axis.is_named() && axis.dim == split_dims_[side]) gathered_layout.mesh_axes[i] = cut[side];
      if (axis.is_named() && axis_extent(axis, sizes_) > max_extent) {
        max_extent = axis_extent(axis, sizes_);
        longest = i;
      }
    }
    Layout out = gathered_layout;
    out.mesh_axes[longest] += extra_axis;
    return {out, gathered_layout};
  }

  std::string format_declaration(int t, const Layout& layout) const {
    const std::string& name = tensor_at(t).name;
    return fmt::format("{}: {}{}", name, ridge::dtype_name(tensor_at(t).dtype),
                       format_layout(tensor_at(t), layout).substr(name.size()));
  }

  // Returns the name of the gathered tensor. Appends a statement that gathers it to `out` if its layout differs.
  std::string add_gather(int t, const Layout& layout, const Layout& gathered_layout, std::string& out) const {
    const std::string& name = tensor_at(t).name;
    if (layout == gathered_layout) return name;
    std::string gathered_name = name + "_all";
    const auto taken = [&](const Tensor& other) { return other.name == gathered_name; };
    while (std::any_of(program_.tensors.begin(), program_.tensors.end(), taken)) gathered_name += "_";
    out += gathered_name + format_layout(tensor_at(t), gathered_layout).substr(name.size()) + " = " + name + "\n";
    return gathered_name;
  }

  const Program& program_;
  const Bindings& sizes_;
  const Contraction& c_;
  std::array<std::string, 3> split_dims_;  // dimensions that split m, n and k
  std::string letters_;
};

Status validate_program(const Program& program, const Bindings& sizes, std::int64_t devices) {
  constexpr const char* example = "'bf16[M, K] * bf16[K, N] -> bf16[M, N]' M=4096 N=4096 K=4096";
  const auto* product = program.statements.size() == 1 ? std::get_if<Contraction>(&program.statements[0].op) : nullptr;
  if (product == nullptr || product->contracted.empty() || product->grouped || !program.mesh.empty())
    return usage_error("expected an unsharded program of one product of two tensors", example);
  if (devices < 1 || devices > max_grid_devices)
    return usage_error(fmt::format("expected 1 to {} devices, found {}", max_grid_devices, devices), "--ranks 4");
  for (const std::string& dim : program.dim_names())
    if (!sizes.contains(dim))
      return usage_error(fmt::format("dimension {} has no value; comparing grids needs all sizes", dim),
                         fmt::format("-d {}=4096", dim));
  return Done{};
}

}  // namespace

std::int64_t words_moved(const ProcessGrid& grid, const ProductSize& dims) {
  return (grid.n - 1) * dims.m * dims.k + (grid.m - 1) * dims.k * dims.n + (grid.k - 1) * dims.m * dims.n;
}

std::vector<ProcessGrid> list_grids(std::int64_t devices) {
  std::vector<ProcessGrid> out;
  for (std::int64_t m = 1; m <= devices; ++m)
    for (std::int64_t n = 1; m * n <= devices; ++n)
      for (std::int64_t k = 1; m * n * k <= devices; ++k) out.push_back({m, n, k});
  return out;
}

ProcessGrid best_grid(std::int64_t devices, const ProductSize& dims) {
  std::optional<ProcessGrid> out;
  for (const ProcessGrid& grid : list_grids(devices))
    if (grid.device_count() == devices && (!out || words_moved(grid, dims) < words_moved(*out, dims))) out = grid;
  return *out;
}

Result<DistributedProduct> distribute_product(const Program& program, const Machine& machine, const Bindings& given,
                                              std::int64_t devices) {
  RIDGE_TRY(sizes, program.bind_sizes(given));
  RIDGE_TRY_STATUS(validate_program(program, sizes, devices));
  const ProductDistributor distributor(program, sizes);
  const ProductSize dims = distributor.product_dims();
  std::optional<DistributedProduct> best;
  double best_s = 0;
  for (std::int64_t used_devices = 1; used_devices <= devices; ++used_devices) {
    const ProcessGrid grid = best_grid(used_devices, dims);
    if (!distributor.is_feasible(grid)) continue;
    const std::string text = distributor.program_text(grid);
    RIDGE_TRY(parsed, parse(text));
    RIDGE_TRY(explained, explain(parsed, machine, {}, {}, Thresholds::skipped));
    const double seconds = explained.total.time_lower_s.value_or(0);
    if (best && seconds >= best_s) continue;
    best_s = seconds;
    best = DistributedProduct{text, grid, words_moved(grid, dims),
                              min_words_moved(static_cast<double>(dims.m), static_cast<double>(dims.n),
                                              static_cast<double>(dims.k), static_cast<double>(used_devices)),
                              optimal_real_grid(static_cast<double>(used_devices), dims)};
  }
  return *best;
}

std::string format_product(const DistributedProduct& p) {
  const std::string grid = fmt::format("grid {} x {} x {}", p.grid.m, p.grid.n, p.grid.k);
  const double words = static_cast<double>(p.moved_words);
  if (words <= p.min_words * (1 + 1e-9))
    return fmt::format("{}: {} words, the minimum", grid, group_digits(p.moved_words));
  return fmt::format("{}: {} words, {:.1f} % above the bound, whose grid {} x {} x {} is fractional", grid,
                     group_digits(p.moved_words), 100 * (words / p.min_words - 1),
                     format_significant(p.optimal_grid[0], 3), format_significant(p.optimal_grid[1], 3),
                     format_significant(p.optimal_grid[2], 3));
}

}  // namespace ridge
