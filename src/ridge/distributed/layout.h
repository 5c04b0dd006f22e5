// A mesh of devices, and the sharding of a tensor over it. Each tensor axis is split over some mesh axes, outermost
// first. Over other mesh axes the devices may hold partial sums; over the remaining ones they hold copies.
//   bf16[B_X, D]{U_Y} on X = 2, Y = 4: two shards along B, four partial sums of each
// An axis of E elements split over p devices has shards of E/p elements; the first E mod p have one element more. Over
// XY it is split into X shards and each of these into Y, so an all-gather over Y yields the shard of X. The longest
// shard has at most ceil(E/(X*Y)) elements; device 0 holds it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Mesh {
  std::vector<std::pair<char, std::int64_t>> axes;  // name and size; the last axis varies fastest
  std::int64_t size(char letter) const;             // returns 1 for an unknown axis
  std::int64_t size(const std::string& letters) const;
  std::int64_t devices() const;
  std::string axis_names() const;  // "XY"
  // Returns a device's coordinate along one mesh axis, or along several flattened into one.
  std::int64_t coordinate_along(std::int64_t device, char letter) const;
  std::int64_t coordinate_along(std::int64_t device, const std::string& letters) const;
};
std::string format_mesh(const Mesh& mesh);  // "X = 2, Y = 4"

struct Layout {
  std::vector<std::string> mesh_axes;  // mesh axes that split each tensor axis: "XY"
  std::string partial_over = {};       // mesh axes that hold partial sums, sorted: "Z" of {U_Z}
  auto operator<=>(const Layout&) const = default;
};
Layout layout_of(const Tensor& tensor);
void set_layout(Tensor& tensor, const Layout& layout);
std::string sharding_axes(const Layout& layout);                        // all mesh axes that split it
std::string format_layout(const Tensor& tensor, const Layout& layout);  // "y[B_X, D]{U_Y}"

struct AxisRange {  // indices [begin, end) along one axis
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
using ShardBox = std::vector<AxisRange>;  // one range for each axis
ShardBox shard_box(const std::vector<std::int64_t>& extents, const Layout& layout, const Mesh& mesh,
                   std::int64_t device);
std::int64_t count_words(const ShardBox& block);
std::int64_t count_common_words(const ShardBox& a, const ShardBox& b);

}  // namespace ridge
