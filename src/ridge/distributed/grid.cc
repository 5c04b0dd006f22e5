#include "ridge/distributed/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ridge/base/text.h"
#include "ridge/distributed/cuts.h"
#include "ridge/distributed/shard.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

constexpr std::int64_t most_devices = 4096;

// The grid of real numbers with so many devices that moves least: as few as 1 along the long sides.
std::array<double, 3> real_grid(double devices, const ProductSides& size) {
  const std::array<double, 3> d{static_cast<double>(size.m), static_cast<double>(size.n), static_cast<double>(size.k)};
  std::array<std::size_t, 3> order{0, 1, 2};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return d[a] > d[b]; });
  const double l = d[order[0]], c = d[order[1]], s = d[order[2]];
  std::array<double, 3> p{1, 1, 1};  // along the longest, the middle, the shortest
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

std::string largest(const std::vector<std::string>& dims, const Bindings& sizes) {
  const auto most = std::max_element(
      dims.begin(), dims.end(), [&](const std::string& a, const std::string& b) { return sizes.at(a) < sizes.at(b); });
  return most == dims.end() ? "" : *most;
}

class Spreading {
 public:
  Spreading(const Program& program, const Bindings& sizes)
      : program_(program),
        sizes_(sizes),
        c_(std::get<Contraction>(program.statements[0].op)),
        dims_{largest(c_.left_free, sizes), largest(c_.right_free, sizes), largest(c_.contracted, sizes)} {
    const std::vector<std::string> taken = program.dim_names();
    for (const char letter : std::string("XYZPQRSTUVWABCDEFGHIJKLMNO"))
      if (std::find(taken.begin(), taken.end(), std::string(1, letter)) == taken.end()) letters_ += letter;
  }

  ProductSides size() const {
    const auto all = [&](const std::vector<std::string>& dims) {
      std::int64_t out = 1;
      for (const std::string& dim : dims) out *= sizes_.at(dim);
      return out;
    };
    return {all(c_.left_free), all(c_.right_free), all(c_.contracted) * c_.literal_contracted};
  }

  // Whether every side that is shared out has a dimension, and there are letters enough.
  bool possible(const Grid& grid) const {
    const std::array<std::int64_t, 3> parts{grid.m, grid.n, grid.k};
    for (std::size_t i = 0; i < 3; ++i)
      if (parts[i] > 1 && (dims_[i].empty() || sizes_.at(dims_[i]) < parts[i])) return false;
    return letters_.size() >= 3;
  }

  std::string written(const Grid& grid) const {
    const std::array<std::string, 3> x{grid.m > 1 ? letters_.substr(0, 1) : "", grid.n > 1 ? letters_.substr(1, 1) : "",
                                       grid.k > 1 ? letters_.substr(2, 1) : ""};
    std::string mesh;
    const std::array<std::int64_t, 3> parts{grid.m, grid.n, grid.k};
    for (std::size_t i = 0; i < 3; ++i)
      if (parts[i] > 1) mesh += fmt::format("{}{} = {}", mesh.empty() ? "mesh " : ", ", x[i], parts[i]);
    std::string dims;
    for (const Dimension& dim : program_.dims)
      dims += fmt::format("{}{} = {}", dims.empty() ? "dims " : ", ", dim.name, sizes_.at(dim.name));
    const auto [left, left_all] = spread(c_.left, {x[0], "", x[2]}, x[1]);
    const auto [right, right_all] = spread(c_.right, {"", x[1], x[2]}, x[0]);
    const auto [result, made] = spread(c_.result, {x[0], x[1], ""}, x[2]);
    std::string out = dims + "\n" + mesh + "\n" + declared(c_.left, left) + "\n";
    if (c_.right != c_.left) out += declared(c_.right, right) + "\n";
    const std::string a = gathered(c_.left, left, left_all, out);
    const std::string b = c_.right == c_.left ? a : gathered(c_.right, right, right_all, out);
    return out + declared(c_.result, result) + " = " + a + " * " + b + "\n";
  }

 private:
  const Tensor& tensor(int t) const { return program_.tensors[static_cast<std::size_t>(t)]; }

  // How it lies spread, and where `further` no longer cuts it: that one cuts the longest of what is left.
  std::pair<Layout, Layout> spread(int t, const std::array<std::string, 3>& cut, const std::string& further) const {
    Layout all{.cut = std::vector<std::string>(tensor(t).axes.size())};
    std::size_t longest = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < all.cut.size(); ++i) {
      const Axis& axis = tensor(t).axes[i];
      for (std::size_t side = 0; side < 3; ++side)
        if (axis.named() && axis.dim == dims_[side]) all.cut[i] = cut[side];
      if (axis.named() && extent(axis, sizes_) > most) {
        most = extent(axis, sizes_);
        longest = i;
      }
    }
    Layout out = all;
    out.cut[longest] += further;
    return {out, all};
  }

  std::string declared(int t, const Layout& layout) const {
    const std::string& name = tensor(t).name;
    return fmt::format("{}: {}{}", name, ridge::name(tensor(t).dtype), text(tensor(t), layout).substr(name.size()));
  }

  // The name of the tensor where it is needed; a statement that gathers it, if it does not lie there, in `out`.
  std::string gathered(int t, const Layout& layout, const Layout& all, std::string& out) const {
    const std::string& name = tensor(t).name;
    if (layout == all) return name;
    std::string fresh = name + "_all";
    const auto taken = [&](const Tensor& other) { return other.name == fresh; };
    while (std::any_of(program_.tensors.begin(), program_.tensors.end(), taken)) fresh += "_";
    out += fresh + text(tensor(t), all).substr(name.size()) + " = " + name + "\n";
    return fresh;
  }

  const Program& program_;
  const Bindings& sizes_;
  const Contraction& c_;
  std::array<std::string, 3> dims_;  // that m, n and k are shared out by
  std::string letters_;
};

std::optional<Error> refused(const Program& program, const Bindings& sizes, std::int64_t devices) {
  constexpr const char* example = "'bf16[M, K] * bf16[K, N] -> bf16[M, N]' M=4096 N=4096 K=4096";
  const auto* product = program.statements.size() == 1 ? std::get_if<Contraction>(&program.statements[0].op) : nullptr;
  if (product == nullptr || product->contracted.empty() || product->grouped || !program.mesh.empty())
    return usage_error("expected a program of one product of two tensors, that is not split", example);
  if (devices < 1 || devices > most_devices)
    return usage_error(fmt::format("expected 1 to {} devices, found {}", most_devices, devices), "--ranks 4");
  for (const std::string& dim : program.dim_names())
    if (!sizes.contains(dim))
      return usage_error(fmt::format("dimension {} has no value, and grids are compared by what they move", dim),
                         fmt::format("-d {}=4096", dim));
  return std::nullopt;
}

}  // namespace

std::int64_t words_moved(const Grid& grid, const ProductSides& size) {
  return (grid.n - 1) * size.m * size.k + (grid.m - 1) * size.k * size.n + (grid.k - 1) * size.m * size.n;
}

std::vector<Grid> grids(std::int64_t devices) {
  std::vector<Grid> out;
  for (std::int64_t m = 1; m <= devices; ++m)
    for (std::int64_t n = 1; m * n <= devices; ++n)
      for (std::int64_t k = 1; m * n * k <= devices; ++k) out.push_back({m, n, k});
  return out;
}

Grid best_grid(std::int64_t devices, const ProductSides& size) {
  std::optional<Grid> out;
  for (const Grid& grid : grids(devices))
    if (grid.devices() == devices && (!out || words_moved(grid, size) < words_moved(*out, size))) out = grid;
  return *out;
}

Result<SpreadProduct> spread_product(const Program& program, const Machine& machine, const Bindings& given,
                                     std::int64_t devices) {
  const auto sizes = program.bind(given);
  if (!sizes) return sizes.error();
  if (auto wrong = refused(program, *sizes, devices)) return *std::move(wrong);
  const Spreading spreading(program, *sizes);
  const ProductSides size = spreading.size();
  std::optional<SpreadProduct> best;
  double best_s = 0;
  for (std::int64_t used = 1; used <= devices; ++used) {
    const Grid grid = best_grid(used, size);
    if (!spreading.possible(grid)) continue;
    const std::string text = spreading.written(grid);
    const auto written = parse(text);
    if (!written) return written.error();
    const auto seen = explain(*written, machine, {}, {}, Thresholds::left_out);
    if (!seen) return seen.error();
    const double seconds = seen->total.time_lower_s.value_or(0);
    if (best && seconds >= best_s) continue;
    best_s = seconds;
    best = SpreadProduct{text, grid, words_moved(grid, size),
                         least_words(static_cast<double>(size.m), static_cast<double>(size.n),
                                     static_cast<double>(size.k), static_cast<double>(used)),
                         real_grid(static_cast<double>(used), size)};
  }
  return *best;
}

std::string text(const SpreadProduct& p) {
  const std::string grid = fmt::format("grid {} x {} x {}", p.grid.m, p.grid.n, p.grid.k);
  const double words = static_cast<double>(p.words);
  if (words <= p.bound * (1 + 1e-9)) return fmt::format("{}: {} words, as few as any can", grid, grouped(p.words));
  return fmt::format("{}: {} words, {:.1f} % above the bound, whose grid {} x {} x {} has no whole numbers", grid,
                     grouped(p.words), 100 * (words / p.bound - 1), significant(p.real_grid[0], 3),
                     significant(p.real_grid[1], 3), significant(p.real_grid[2], 3));
}

}  // namespace ridge
