// The messages of one device in a redistribution: the boxes that it sends and receives, with peers and addresses. If
// several devices hold copies of a box, the source is the one whose coordinates differ only along mesh axes that split
// the tensor (or hold its partial sums), which spreads the load. The number of words is the one in distributed/moves.h.
#pragma once

#include <vector>

#include "ridge/distributed/moves.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

struct Tensorial {  // the tensor that is redistributed
  std::vector<std::int64_t> extents;
  DType dtype = DType::f32;
  transport::Reduction how = transport::Reduction::sum;
};

struct Parcel {
  std::int64_t peer = 0;
  std::int64_t addend = 0;  // position of the sender among the partial sums; they are added in this order
  Block box = {};           // in global indices
  std::size_t staged = 0;   // offset in staging memory, in bytes
  bool dense = false;       // true if the box is contiguous in the shard and needs no staging
};

class Route {
 public:
  Route(const Move& move, Tensorial tensor, const Mesh& mesh, std::int64_t device);

  const Move& move() const { return move_; }
  const Tensorial& tensor() const { return tensor_; }
  const Mesh& mesh() const { return mesh_; }
  std::int64_t device() const { return device_; }
  std::int64_t width() const { return width_; }    // bytes of one element
  bool adds() const { return adds_; }              // true if received boxes are added up
  const Block& before() const { return before_; }  // global indices of the device's shard
  const Block& after() const { return after_; }
  // The ranks of an all-reduce, which runs in place without message buffers; empty for other redistributions.
  const std::vector<int>& group() const { return group_; }
  const std::vector<Parcel>& out() const { return out_; }
  const std::vector<Parcel>& in() const { return in_; }
  const std::vector<Parcel>& own() const { return own_; }  // boxes that stay on this device
  std::size_t staging_bytes() const { return staging_bytes_; }
  std::int64_t words_sent() const { return words_sent_; }  // words that this device sends, also in an all-reduce
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

// Returns the devices that differ from this one only along the mesh axes `over`, itself included, ordered by position.
std::vector<int> sharers(const Mesh& mesh, const std::string& over, std::int64_t device);

// Equidistant rows of a box in the memory of a block, in bytes; in the packed box the rows are contiguous.
struct BoxRows {
  std::int64_t in_block = 0, in_box = 0, bytes = 0, rows = 1, apart = 0;
};
std::vector<BoxRows> rows_of(const Block& block, const Block& box, std::int64_t width);
// Returns the offset of the box's first element in the block, in elements.
std::int64_t place_of(const Block& block, const Block& box);
Block both(const Block& a, const Block& b);  // ranges without overlap are empty

}  // namespace ridge::ranks
