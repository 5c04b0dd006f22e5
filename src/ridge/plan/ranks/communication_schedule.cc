#include "ridge/plan/ranks/communication_schedule.h"

#include <algorithm>

namespace ridge::ranks {
namespace {

// True if the box is contiguous in the block's memory: it spans all axes after its first axis of more than one element.
bool is_contiguous_in(const ShardBox& block, const ShardBox& box) {
  bool has_several = false;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (has_several && box[i].size() != block[i].size()) return false;
    has_several = has_several || box[i].size() > 1;
  }
  return true;
}

std::string axis_letters(const Mesh& mesh) {
  std::string out;
  for (const auto& axis : mesh.axes) out += axis.first;
  return out;
}

bool is_reduction(const RedistributionStep& step) {
  return step.collective == Collective::reduce_scatter || step.collective == Collective::all_reduce;
}

}  // namespace

std::int64_t element_offset(const ShardBox& block, const ShardBox& box) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < box.size(); ++i) out = out * block[i].size() + box[i].begin - block[i].begin;
  return out;
}

// The trailing axes that the box spans form one row with the axis before them; the axis before that one counts rows.
std::vector<StridedRows> split_into_rows(const ShardBox& block, const ShardBox& box, std::int64_t width) {
  if (count_words(box) == 0) return {};
  std::size_t outer = box.size();
  StridedRows one{.row_bytes = width};
  while (outer > 0) {
    --outer;
    one.row_bytes *= box[outer].size();
    if (box[outer].size() != block[outer].size()) break;
  }
  one.block_stride = one.row_bytes;
  if (outer > 0) {
    --outer;
    one.rows = box[outer].size();
    one.block_stride = width;
    for (std::size_t i = outer + 1; i < block.size(); ++i) one.block_stride *= block[i].size();
  }
  ShardBox at = box;  // one element along each outer axis
  for (std::size_t i = 0; i < outer; ++i) at[i].end = at[i].begin + 1;
  std::vector<StridedRows> out;
  for (;;) {
    out.push_back(one);
    out.back().block_offset = width * element_offset(block, at);
    one.box_offset += one.row_bytes * one.rows;
    std::size_t axis = outer;
    while (axis > 0 && ++at[axis - 1].begin == box[axis - 1].end) {
      at[axis - 1].begin = box[axis - 1].begin;
      --axis;
    }
    if (axis == 0) return out;
  }
}

ShardBox intersect(const ShardBox& a, const ShardBox& b) {
  ShardBox out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t begin = std::max(a[i].begin, b[i].begin);
    out.push_back({begin, std::max(begin, std::min(a[i].end, b[i].end))});
  }
  return out;
}

std::vector<int> group_ranks(const Mesh& mesh, const std::string& over, std::int64_t device) {
  std::vector<int> out(mesh.size(over));
  for (std::int64_t other = 0; other < mesh.devices(); ++other) {
    const bool is_in_group = std::all_of(mesh.axes.begin(), mesh.axes.end(), [&](const auto& axis) {
      return over.find(axis.first) != std::string::npos ||
             mesh.coordinate_along(other, axis.first) == mesh.coordinate_along(device, axis.first);
    });
    if (is_in_group) out[mesh.coordinate_along(other, over)] = static_cast<int>(other);
  }
  return out;
}

CommunicationSchedule::CommunicationSchedule(const RedistributionStep& step, RedistributedTensor tensor,
                                             const Mesh& mesh, std::int64_t device)
    : redistribution_(step),
      tensor_(std::move(tensor)),
      mesh_(mesh),
      device_(device),
      element_bytes_(dtype_bits(tensor_.dtype) / 8),
      is_reduction_(ranks::is_reduction(step)),
      before_(shard_box(tensor_.extents, step.before, mesh, device)),
      after_(shard_box(tensor_.extents, step.after, mesh, device)) {
  if (step.collective == Collective::all_reduce)
    set_reduction_group();
  else
    list_messages();
}

// Sets the ranks of an all-reduce and the words that this rank sends.
void CommunicationSchedule::set_reduction_group() {
  group_.resize(mesh_.size(redistribution_.over));
  for (std::int64_t other = 0; other < mesh_.devices(); ++other)
    if (is_source_of(other, device_))
      group_[mesh_.coordinate_along(other, redistribution_.over)] = static_cast<int>(other);
  const auto n = static_cast<std::int64_t>(group_.size());
  const std::int64_t words = count_words(after_), each = (words + n - 1) / n,
                     position = mesh_.coordinate_along(device_, redistribution_.over);
  const std::int64_t mine = std::min(words, (position + 1) * each) - std::min(words, position * each);
  words_sent_ = words - mine + (n - 1) * mine;  // its partial sums of the other slices, then the sums of its own slice
}

// True if `owner` sends to `reader`: their coordinates differ only along mesh axes over which data is exchanged.
bool CommunicationSchedule::is_source_of(std::int64_t owner, std::int64_t reader) const {
  const std::string cut =
      redistribution_.collective == Collective::all_reduce ? "" : sharding_axes(redistribution_.before);
  for (const char letter : axis_letters(mesh_)) {
    const bool may_differ = cut.find(letter) != std::string::npos ||
                            (is_reduction_ && redistribution_.over.find(letter) != std::string::npos);
    if (!may_differ && mesh_.coordinate_along(owner, letter) != mesh_.coordinate_along(reader, letter)) return false;
  }
  return true;
}

void CommunicationSchedule::add_message(std::vector<MessageBuffer>& to, MessageBuffer message) {
  if (count_words(message.box) == 0) return;
  message.staging_offset = staging_bytes_;
  if (!message.is_contiguous) staging_bytes_ += box_bytes(message.box);
  to.push_back(std::move(message));
}

void CommunicationSchedule::list_messages() {
  for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
    const auto addition_order = [&](std::int64_t owner) {
      return is_reduction_ ? mesh_.coordinate_along(owner, redistribution_.over) : 0;
    };
    if (is_source_of(other, device_)) {
      const ShardBox box = intersect(after_, shard_box(tensor_.extents, redistribution_.before, mesh_, other));
      const bool is_direct = other != device_ && !is_reduction_ && is_contiguous_in(after_, box);
      add_message(other == device_ ? local_ : incoming_, {other, addition_order(other), box, 0, is_direct});
    }
    if (other != device_ && is_source_of(device_, other)) {
      const ShardBox box = intersect(shard_box(tensor_.extents, redistribution_.after, mesh_, other), before_);
      add_message(outgoing_, {other, addition_order(device_), box, 0, is_contiguous_in(before_, box)});
      words_sent_ += count_words(box);
    }
  }
}

}  // namespace ridge::ranks
