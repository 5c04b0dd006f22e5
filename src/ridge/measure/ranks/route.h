// A move as one device sees it: which boxes of its part go to whom, which come from whom and where they lie. What a
// device needs afterwards and has not comes from the one that differs from it in nothing but the mesh axes that cut the
// tensor (or hold its addends), so that copies are asked evenly; the words are those that distributed/moves.h counts.
#pragma once

#include <vector>

#include "ridge/distributed/moves.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

struct Tensorial {  // what is moved
  std::vector<std::int64_t> extents;
  DType dtype = DType::f32;
  transport::Reduction how = transport::Reduction::sum;
};

struct Parcel {
  std::int64_t peer = 0;
  std::int64_t addend = 0;  // which one it is
  Block box = {};           // of the whole tensor
  std::size_t staged = 0;   // where it lies in staging memory, in bytes
  bool dense = false;       // it is one run in the device's part, and needs no staging
};

class Route {
 public:
  Route(const Move& move, Tensorial tensor, const Mesh& mesh, std::int64_t device);

  const Move& move() const { return move_; }
  const Tensorial& tensor() const { return tensor_; }
  const Mesh& mesh() const { return mesh_; }
  std::int64_t device() const { return device_; }
  std::int64_t width() const { return width_; }    // bytes of an element
  bool adds() const { return adds_; }              // what comes are addends
  const Block& before() const { return before_; }  // of the device's part
  const Block& after() const { return after_; }
  // Those whose addends are added up in place: of an all-reduce, which has no parcels; else empty.
  const std::vector<int>& group() const { return group_; }
  const std::vector<Parcel>& out() const { return out_; }
  const std::vector<Parcel>& in() const { return in_; }
  const std::vector<Parcel>& own() const { return own_; }  // from before to after
  std::size_t staging_bytes() const { return staging_bytes_; }
  std::int64_t words_sent() const { return words_sent_; }  // of this device; of an all-reduce as well
  std::size_t bytes_of(const Block& box) const { return static_cast<std::size_t>(words_in(box) * width_); }

 private:
  bool owns(std::int64_t owner, std::int64_t reader) const;
  void list();
  void meet();
  void add(std::vector<Parcel>& to, Parcel parcel);

  Move move_;
  Tensorial tensor_;
  const Mesh& mesh_;
  std::int64_t device_;
  std::int64_t width_;
  bool adds_ = false;
  Block before_, after_;
  std::vector<int> group_;
  std::vector<Parcel> out_, in_, own_;
  std::size_t staging_bytes_ = 0;
  std::int64_t words_sent_ = 0;
};

// The devices that lie elsewhere than this one along these mesh axes alone, itself among them, by their places there.
std::vector<int> sharers(const Mesh& mesh, const std::string& over, std::int64_t device);

// A box in the memory of a block, as rows: calls step(offset in the block, offset in the box, bytes of a row, rows,
// bytes between rows in the block); in the box they lie one behind the other.
struct BoxRows {
  std::int64_t in_block = 0, in_box = 0, bytes = 0, rows = 1, apart = 0;
};
std::vector<BoxRows> rows_of(const Block& block, const Block& box, std::int64_t width);
// Where the box's first element lies in the block, in elements.
std::int64_t place_of(const Block& block, const Block& box);
Block both(const Block& a, const Block& b);  // where they meet; empty pieces where they do not

}  // namespace ridge::ranks
