// A move as one device makes it: which boxes of its part go to whom, which come from whom and where they lie. What a
// device needs afterwards and has not comes from the one that differs from it in nothing but the mesh axes that cut the
// tensor (or hold its addends), so that copies are asked evenly; the words are those that distributed/moves.h counts.
#pragma once

#include <span>
#include <vector>

#include "ridge/distributed/moves.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

struct Tensorial {  // what is moved
  std::vector<std::int64_t> extents;
  DType dtype = DType::f32;
  transport::Reduction how = transport::Reduction::sum;
};

class Mover {
 public:
  Mover(const Move& move, Tensorial tensor, const Mesh& mesh, std::int64_t device);

  std::int64_t words_sent() const { return words_sent_; }  // of this device; of an all-reduce as well
  std::int64_t staging_bytes() const { return static_cast<std::int64_t>(staging_.size()); }

  // `from` and `to` hold the device's parts, before and after.
  Status perform(transport::Ranks& ranks, const std::byte* from, std::byte* to);

 private:
  struct Parcel {
    std::int64_t peer = 0;
    std::int64_t addend = 0;  // which one it is
    Block box = {};           // of the whole tensor
    std::size_t staged = 0;   // where it lies in the staging memory
    bool dense = false;       // it is one run in the device's part, and needs no staging
  };
  bool owns(std::int64_t owner, std::int64_t reader) const;
  void list(const Mesh& mesh);
  void meet(const Mesh& mesh);
  void add(std::vector<Parcel>& to, Parcel parcel);
  std::size_t bytes_of(const Block& box) const;
  void unpack(std::byte* to);
  void add_up(std::byte* to);

  Move move_;
  Tensorial tensor_;
  const Mesh& mesh_;
  std::int64_t device_;
  std::int64_t width_;  // bytes of an element
  bool adds_ = false;
  Block before_, after_;
  std::vector<int> group_;  // of an all-reduce in place; else empty
  std::vector<Parcel> out_, in_, own_;
  std::vector<std::byte> staging_;
  std::int64_t words_sent_ = 0;
};

// Copies a box out of the memory of `block`, densely, and back.
void pack(const std::byte* from, const Block& block, const Block& box, std::int64_t width, std::byte* to);
void unpack(const std::byte* from, const Block& box, const Block& block, std::int64_t width, std::byte* to);
Block both(const Block& a, const Block& b);  // where they meet; empty pieces where they do not

}  // namespace ridge::ranks
