// The messages of one device in a redistribution: the boxes that it sends and receives, with peers and addresses. If
// several devices hold copies of a box, the source is the one whose coordinates differ only along mesh axes that split
// the tensor (or hold its partial sums), which spreads the load. The number of words sent is
// that of `words_moved` in distributed/redistribution.h.
#pragma once

#include <vector>

#include "ridge/distributed/redistribution.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

struct RedistributedTensor {  // the tensor that is redistributed
  std::vector<std::int64_t> extents;
  DType dtype = DType::f32;
  transport::ReduceOp reduce_op = transport::ReduceOp::sum;
};

struct MessageBuffer {
  std::int64_t peer = 0;
  std::int64_t addition_order = 0;  // partial sums are added in ascending order of this position of their sender
  ShardBox box = {};                // in global indices
  std::size_t staging_offset = 0;   // offset in staging memory, in bytes
  bool is_contiguous = false;       // true if the box is contiguous in the shard and needs no staging
};

class CommunicationSchedule {
 public:
  CommunicationSchedule(const RedistributionStep& step, RedistributedTensor tensor, const Mesh& mesh,
                        std::int64_t device);

  const RedistributionStep& redistribution() const { return redistribution_; }
  const RedistributedTensor& tensor() const { return tensor_; }
  const Mesh& mesh() const { return mesh_; }
  std::int64_t device_index() const { return device_; }
  std::int64_t element_bytes() const { return element_bytes_; }  // bytes of one element
  bool is_reduction() const { return is_reduction_; }            // true if received boxes are added up
  const ShardBox& block_before() const { return before_; }       // global indices of the device's shard
  const ShardBox& block_after() const { return after_; }
  // The ranks of an all-reduce, which runs in place without message buffers; empty for other redistributions.
  const std::vector<int>& reduction_group() const { return group_; }
  const std::vector<MessageBuffer>& outgoing_messages() const { return outgoing_; }
  const std::vector<MessageBuffer>& incoming_messages() const { return incoming_; }
  const std::vector<MessageBuffer>& local_messages() const { return local_; }  // boxes that stay on this device
  std::size_t staging_bytes() const { return staging_bytes_; }
  std::int64_t words_sent() const { return words_sent_; }  // words that this device sends, also in an all-reduce
  std::size_t box_bytes(const ShardBox& box) const {
    return static_cast<std::size_t>(count_words(box) * element_bytes_);
  }

 private:
  bool is_source_of(std::int64_t owner, std::int64_t reader) const;
  void list_messages();
  void set_reduction_group();
  void add_message(std::vector<MessageBuffer>& to, MessageBuffer message);

  RedistributionStep redistribution_;
  RedistributedTensor tensor_;
  const Mesh& mesh_;
  std::int64_t device_;
  std::int64_t element_bytes_;
  bool is_reduction_ = false;
  ShardBox before_, after_;
  std::vector<int> group_;
  std::vector<MessageBuffer> outgoing_, incoming_, local_;
  std::size_t staging_bytes_ = 0;
  std::int64_t words_sent_ = 0;
};

// Returns the devices that differ from this one only along the mesh axes `over`, itself included, ordered by position.
std::vector<int> group_ranks(const Mesh& mesh, const std::string& over, std::int64_t device);

// Equidistant rows of a box in the memory of a block, in bytes; in the packed box the rows are contiguous.
struct StridedRows {
  std::int64_t block_offset = 0, box_offset = 0, row_bytes = 0, rows = 1, block_stride = 0;
};
std::vector<StridedRows> split_into_rows(const ShardBox& block, const ShardBox& box, std::int64_t width);
// Returns the offset of the box's first element in the block, in elements.
std::int64_t element_offset(const ShardBox& block, const ShardBox& box);
ShardBox intersect(const ShardBox& a, const ShardBox& b);  // ranges without overlap are empty

}  // namespace ridge::ranks
