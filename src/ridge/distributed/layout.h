// A mesh of devices, and how a tensor lies on it: each of its axes is cut along some mesh axes, outermost first, and
// what a device holds of it may be an addend over others. What neither cuts it nor holds addends holds copies.
//   bf16[B_X, D]{U_Y} on X = 2, Y = 4: two parts along B, four addends of each
// An axis of E elements over p parts falls into pieces of E/p, the first E mod p of which have one element more; over
// XY into X pieces, and each of these into Y, so that what is gathered over Y is the piece of X. The longest has
// ceil(E/(X*Y)) elements, and device 0 has it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

struct Mesh {
  std::vector<std::pair<char, std::int64_t>> axes;  // the last one is next to each other
  std::int64_t size(char letter) const;             // 1: there is no such axis
  std::int64_t size(const std::string& letters) const;
  std::int64_t devices() const;
  // Where along an axis, or along several taken as one, a device lies; devices are numbered with the last axis fastest.
  std::int64_t place(std::int64_t device, char letter) const;
  std::int64_t place(std::int64_t device, const std::string& letters) const;
};
std::string text(const Mesh& mesh);  // "X = 2, Y = 4"

struct Layout {
  std::vector<std::string> cut;  // of each axis of the tensor: "XY"
  std::string addends = {};      // "Z" of {U_Z}, sorted
  auto operator<=>(const Layout&) const = default;
};
Layout layout_of(const Tensor& tensor);
void lay(Tensor& tensor, const Layout& layout);
std::string letters_of(const Layout& layout);                  // that cut it
std::string text(const Tensor& tensor, const Layout& layout);  // "y[B_X, D]{U_Y}"

struct Piece {  // [begin, end) along an axis
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
using Block = std::vector<Piece>;  // along each axis
Block block_of(const std::vector<std::int64_t>& extents, const Layout& layout, const Mesh& mesh, std::int64_t device);
std::int64_t words_in(const Block& block);
std::int64_t words_in_both(const Block& a, const Block& b);

}  // namespace ridge
