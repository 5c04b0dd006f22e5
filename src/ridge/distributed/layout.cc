#include "ridge/distributed/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge {

std::int64_t Mesh::size(char letter) const {
  for (const auto& [name, size] : axes)
    if (name == letter) return size;
  return 1;
}

std::int64_t Mesh::size(const std::string& letters) const {
  std::int64_t out = 1;
  for (const char letter : letters) out *= size(letter);
  return out;
}

std::string Mesh::axis_names() const {
  std::string out;
  for (const auto& axis : axes) out += axis.first;
  return out;
}

std::int64_t Mesh::devices() const {
  std::int64_t out = 1;
  for (const auto& axis : axes) out *= axis.second;
  return out;
}

std::int64_t Mesh::coordinate_along(std::int64_t device, char letter) const {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->first == letter) return device % axis->second;
    device /= axis->second;
  }
  return 0;
}

std::int64_t Mesh::coordinate_along(std::int64_t device, const std::string& letters) const {
  std::int64_t out = 0;
  for (const char letter : letters) out = out * size(letter) + coordinate_along(device, letter);
  return out;
}

std::string format_mesh(const Mesh& mesh) {
  std::string out;
  for (const auto& [name, size] : mesh.axes) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, size);
  return out;
}

Layout layout_of(const Tensor& tensor) {
  Layout out{.mesh_axes = {}, .partial_over = tensor.partial};
  for (const Axis& axis : tensor.axes) out.mesh_axes.push_back(axis.mesh);
  return out;
}

void set_layout(Tensor& tensor, const Layout& layout) {
  for (std::size_t i = 0; i < tensor.axes.size(); ++i) tensor.axes[i].mesh = layout.mesh_axes[i];
  tensor.partial = layout.partial_over;
}

std::string sharding_axes(const Layout& layout) {
  std::string out;
  for (const std::string& letters : layout.mesh_axes) out += letters;
  return out;
}

std::string format_layout(const Tensor& tensor, const Layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
    const Axis& axis = tensor.axes[i];
    out += (out.empty() ? "" : ", ") + (axis.is_named() ? axis.dim : std::to_string(axis.literal));
    if (!layout.mesh_axes[i].empty()) out += "_" + layout.mesh_axes[i];
  }
  return fmt::format("{}[{}]{}", tensor.name, out,
                     layout.partial_over.empty() ? "" : "{U_" + layout.partial_over + "}");
}

ShardBox shard_box(const std::vector<std::int64_t>& extents, const Layout& layout, const Mesh& mesh,
                   std::int64_t device) {
  ShardBox out;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    AxisRange range{0, extents[i]};
    for (const char letter : layout.mesh_axes[i]) {
      const std::int64_t parts = mesh.size(letter), coordinate = mesh.coordinate_along(device, letter);
      const std::int64_t part_size = range.size() / parts, longer_parts = range.size() % parts;
      range.begin += coordinate * part_size + std::min(coordinate, longer_parts);
      range.end = range.begin + part_size + (coordinate < longer_parts ? 1 : 0);
    }
    out.push_back(range);
  }
  return out;
}

std::int64_t count_words(const ShardBox& block) {
  std::int64_t out = 1;
  for (const AxisRange& range : block) out *= range.size();
  return out;
}

std::int64_t count_common_words(const ShardBox& a, const ShardBox& b) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    out *= std::max<std::int64_t>(0, std::min(a[i].end, b[i].end) - std::max(a[i].begin, b[i].begin));
  return out;
}

}  // namespace ridge
