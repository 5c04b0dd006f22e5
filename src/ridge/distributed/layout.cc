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

std::int64_t Mesh::devices() const {
  std::int64_t out = 1;
  for (const auto& axis : axes) out *= axis.second;
  return out;
}

std::int64_t Mesh::place(std::int64_t device, char letter) const {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->first == letter) return device % axis->second;
    device /= axis->second;
  }
  return 0;
}

std::int64_t Mesh::place(std::int64_t device, const std::string& letters) const {
  std::int64_t out = 0;
  for (const char letter : letters) out = out * size(letter) + place(device, letter);
  return out;
}

std::string text(const Mesh& mesh) {
  std::string out;
  for (const auto& [name, size] : mesh.axes) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, size);
  return out;
}

Layout layout_of(const Tensor& tensor) {
  Layout out{.cut = {}, .addends = tensor.partial};
  for (const Axis& axis : tensor.axes) out.cut.push_back(axis.mesh);
  return out;
}

void lay(Tensor& tensor, const Layout& layout) {
  for (std::size_t i = 0; i < tensor.axes.size(); ++i) tensor.axes[i].mesh = layout.cut[i];
  tensor.partial = layout.addends;
}

std::string letters_of(const Layout& layout) {
  std::string out;
  for (const std::string& letters : layout.cut) out += letters;
  return out;
}

std::string text(const Tensor& tensor, const Layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < tensor.axes.size(); ++i) {
    const Axis& axis = tensor.axes[i];
    out += (out.empty() ? "" : ", ") + (axis.named() ? axis.dim : std::to_string(axis.literal));
    if (!layout.cut[i].empty()) out += "_" + layout.cut[i];
  }
  return fmt::format("{}[{}]{}", tensor.name, out, layout.addends.empty() ? "" : "{U_" + layout.addends + "}");
}

Block block_of(const std::vector<std::int64_t>& extents, const Layout& layout, const Mesh& mesh, std::int64_t device) {
  Block out;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    Piece piece{0, extents[i]};
    for (const char letter : layout.cut[i]) {
      const std::int64_t parts = mesh.size(letter), place = mesh.place(device, letter);
      const std::int64_t each = piece.size() / parts, longer = piece.size() % parts;
      piece.begin += place * each + std::min(place, longer);
      piece.end = piece.begin + each + (place < longer ? 1 : 0);
    }
    out.push_back(piece);
  }
  return out;
}

std::int64_t words_in(const Block& block) {
  std::int64_t out = 1;
  for (const Piece& piece : block) out *= piece.size();
  return out;
}

std::int64_t words_in_both(const Block& a, const Block& b) {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    out *= std::max<std::int64_t>(0, std::min(a[i].end, b[i].end) - std::max(a[i].begin, b[i].begin));
  return out;
}

}  // namespace ridge
