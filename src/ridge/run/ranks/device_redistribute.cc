#include "ridge/run/ranks/device_redistribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ridge/base/string_util.h"
#include "ridge/base/timer.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

constexpr std::size_t vector_bytes = 16;  // bytes of one vector load of the copy kernels
constexpr int timed_calls = 20, timed_runs = 7;

Status queue_pack(const device::Queue& queue, const std::byte* from, const ShardBox& block,
                  const MessageBuffer& message, std::int64_t width, std::byte* to) {
  for (const StridedRows& box_rows : split_into_rows(block, message.box, width)) {
    auto* const source = const_cast<std::byte*>(from) + box_rows.block_offset;  // the copy only reads it
    RIDGE_TRY_STATUS(queue.copy_rows({to + box_rows.box_offset, box_rows.row_bytes}, {source, box_rows.block_stride},
                                     box_rows.row_bytes, box_rows.rows));
  }
  return Done{};
}

Status queue_unpack(const device::Queue& queue, std::byte* from, const MessageBuffer& message, const ShardBox& block,
                    std::int64_t width, std::byte* to) {
  for (const StridedRows& box_rows : split_into_rows(block, message.box, width)) {
    const Status copied =
        queue.copy_rows({to + box_rows.block_offset, box_rows.block_stride},
                        {from + box_rows.box_offset, box_rows.row_bytes}, box_rows.row_bytes, box_rows.rows);
    if (!copied) return copied;
  }
  return Done{};
}

bool is_reduce_scatter(const CommunicationSchedule& r) { return r.is_reduction() && r.reduction_group().empty(); }

// Returns the bytes of the largest box of a reduce-scatter over all devices (some have none), rounded up to 16.
std::size_t max_partial_bytes(const CommunicationSchedule& r) {
  std::size_t result = 0;
  for (std::int64_t d = 0; d < r.mesh().devices(); ++d) {
    const ShardBox after = shard_box(r.tensor().extents, r.redistribution().after, r.mesh(), d);
    const ShardBox before = shard_box(r.tensor().extents, r.redistribution().before, r.mesh(), d);
    result = std::max(result, r.box_bytes(intersect(after, before)));
  }
  return (result + vector_bytes - 1) / vector_bytes * vector_bytes;
}

// True if an all-gather receives shards of equal length contiguously in the order of the ranks, so that no unpacking is
// needed. All ranks of the group get the same answer.
bool is_gather_contiguous(const CommunicationSchedule& r) {
  if (r.redistribution().collective != Collective::all_gather || r.local_messages().size() != 1) return false;
  const std::size_t each = r.box_bytes(r.block_before());
  const std::size_t n = r.mesh().size(r.redistribution().over);
  if (each * n != r.box_bytes(r.block_after()) || r.incoming_messages().size() + 1 != n) return false;
  for (const auto* messages : {&r.incoming_messages(), &r.local_messages()})
    for (const MessageBuffer& p : *messages) {
      const std::size_t position = r.mesh().coordinate_along(p.peer, r.redistribution().over);
      const std::size_t offset = element_offset(r.block_after(), p.box) * r.element_bytes();
      const bool is_run = messages == &r.local_messages() || p.is_contiguous;
      if (!is_run || r.box_bytes(p.box) != each || offset != position * each) return false;
    }
  return true;
}

// True if the boxes of a reduce-scatter are contiguous in the order of the ranks, so that no packing is needed.
bool is_scatter_contiguous(const CommunicationSchedule& r) {
  if (!is_reduce_scatter(r) || r.local_messages().size() != 1) return false;
  const std::size_t each = max_partial_bytes(r);
  for (const auto* messages : {&r.outgoing_messages(), &r.local_messages()})
    for (const MessageBuffer& p : *messages) {
      const std::size_t position = r.mesh().coordinate_along(p.peer, r.redistribution().over);
      const std::vector<StridedRows> runs = split_into_rows(r.block_before(), p.box, r.element_bytes());
      if (runs.size() != 1 || runs.front().rows != 1 || static_cast<std::size_t>(runs.front().row_bytes) != each ||
          static_cast<std::size_t>(runs.front().block_offset) != position * each)
        return false;
    }
  return each == r.box_bytes(r.block_after()) &&
         each * (r.outgoing_messages().size() + 1) == r.box_bytes(r.block_before());
}

// Returns the bytes sent to each rank, or 0 if the small-collective kernel cannot do it.
std::int64_t count_bytes_to_each_rank(const CommunicationSchedule& r) {
  if (r.is_reduction() && r.tensor().reduce_op != transport::ReduceOp::sum) return 0;
  if (is_reduce_scatter(r)) return static_cast<std::int64_t>(max_partial_bytes(r));
  const auto bytes = static_cast<std::int64_t>(r.box_bytes(r.block_before()));
  return r.is_reduction() || bytes % vector_bytes == 0 ? bytes : 0;
}

}  // namespace

Result<NcclGroups> NcclGroups::make(transport::Communicator& comm, const Mesh& mesh, const std::string& library,
                                    std::shared_ptr<const transport::NcclCommunicator> existing) {
  NcclGroups out(comm, mesh);
  out.world_ = std::move(existing);
  if (out.world_ != nullptr) return out;
  auto all = transport::NcclCommunicator::connect(comm, library);
  if (all)
    out.world_ = *std::move(all);
  else if (all.error().kind == ErrorKind::absent)
    out.unavailable_reason_ = all.error().message;
  else
    return all.error();
  return out;
}

Result<const transport::NcclCommunicator*> NcclGroups::group_along(const std::string& letters) {
  const auto found = groups_.find(letters);
  if (found != groups_.end()) return found->second.get();
  const int mine = comm_->rank();
  const std::vector<int> group = group_ranks(*mesh_, letters, mine);
  bool is_all = static_cast<int>(group.size()) == comm_->size();
  for (std::size_t i = 0; i < group.size(); ++i) is_all &= group[i] == static_cast<int>(i);
  if (is_all) return world_.get();
  const int first = group.front();
  RIDGE_TRY(subgroup, world_->split_group({first, static_cast<int>(mesh_->coordinate_along(mine, letters)),
                                           static_cast<int>(mesh_->size(letters))}));
  return groups_.emplace(letters, std::move(subgroup)).first->second.get();
}

Result<DeviceRedistributor> DeviceRedistributor::make(CommunicationSchedule comm_schedule, NcclGroups& nccl_groups,
                                                      PeerMemory* peer_memory) {
  std::int64_t needs_packing =
      comm_schedule.is_reduction() || is_gather_contiguous(comm_schedule) ? 0 : 1;  // 1 if any rank needs it
  RIDGE_TRY_STATUS(transport::all_reduce_max(nccl_groups.comm(), needs_packing));
  const bool collective = nccl_groups.world() != nullptr && needs_packing == 0;
  RIDGE_TRY(subgroup, collective ? nccl_groups.group_along(comm_schedule.redistribution().over)
                                 : Result<const transport::NcclCommunicator*>(nullptr));
  std::size_t bytes = nccl_groups.world() != nullptr ? comm_schedule.staging_bytes() : 0;
  // A packed reduce-scatter needs one slice for each rank, all as long as the longest, and one for the result.
  if (collective && is_scatter_contiguous(comm_schedule))
    bytes = 0;
  else if (collective && is_reduce_scatter(comm_schedule))
    bytes = static_cast<std::size_t>(subgroup->size() + 1) * max_partial_bytes(comm_schedule);
  auto staging = device::DeviceBuffer::allocate(static_cast<std::int64_t>(bytes));
  RIDGE_TRY_STATUS(transport::agree_on_status(nccl_groups.comm(), staging ? Status(Done{}) : staging.error()));
  DeviceRedistributor out(Redistributor(std::move(comm_schedule)), *std::move(staging), nccl_groups);
  out.group_ = subgroup;
  if (collective && peer_memory != nullptr) RIDGE_TRY_STATUS(out.compare_small_collective(*peer_memory));
  return out;
}

Result<bool> DeviceRedistributor::is_small(const CommunicationSchedule& comm_schedule, transport::Communicator& comm) {
  std::int64_t max_bytes =
      comm_schedule.is_reduction() || is_gather_contiguous(comm_schedule) ? count_bytes_to_each_rank(comm_schedule) : 0;
  RIDGE_TRY_STATUS(transport::all_reduce_max(comm, max_bytes));
  return max_bytes > 0 && max_bytes <= SmallCollective::max_bytes;
}

// Times NCCL and the kernel between these devices, 20 calls per graph, on separate buffers. Rank 0's times decide.
Status DeviceRedistributor::compare_small_collective(PeerMemory& peer_memory) {
  std::int64_t max_bytes = count_bytes_to_each_rank(comm_schedule());  // maximum over all groups
  RIDGE_TRY_STATUS(transport::all_reduce_max(*comm_, max_bytes));
  if (max_bytes == 0) return Done{};
  RIDGE_TRY(small, SmallCollective::make(peer_memory,
                                         group_ranks(comm_schedule().mesh(), comm_schedule().redistribution().over,
                                                     comm_schedule().device_index()),
                                         max_bytes));
  if (small == nullptr) return Done{};
  small_ = std::move(small);  // kept even if unused: other ranks have mapped its buffer
  const auto from = device::DeviceBuffer::allocate(
      static_cast<std::int64_t>(comm_schedule().box_bytes(comm_schedule().block_before())) + vector_bytes);
  const auto to = device::DeviceBuffer::allocate(
      static_cast<std::int64_t>(comm_schedule().box_bytes(comm_schedule().block_after())) + vector_bytes);
  const auto queue = device::Queue::create();
  RIDGE_TRY_STATUS(transport::agree_on_status(
      *comm_, from && to && queue
                  ? Status(Done{})
                  : absent_error("no memory is left on the device", "give smaller dimensions with -d")));
  double seconds[2] = {0, 0};
  for (const bool use_small : {false, true}) {
    if (use_small) active_small_ = small_.get();
    RIDGE_TRY(took, time_calls(*queue, from->data(), to->data()));
    seconds[use_small ? 1 : 0] = took;
  }
  RIDGE_TRY_STATUS(transport::broadcast(*comm_, std::as_writable_bytes(std::span(seconds))));
  measured_s_ = std::min(seconds[0], seconds[1]);
  timing_note_ = fmt::format("{} over {}: {} as one kernel, {} by NCCL",
                             name(*comm_schedule().redistribution().collective), comm_schedule().redistribution().over,
                             format_with_prefix(seconds[1], "s"), format_with_prefix(seconds[0], "s"));
  if (seconds[1] >= seconds[0]) active_small_ = nullptr;
  return Done{};
}

Result<double> DeviceRedistributor::time_calls(const device::Queue& on, const std::byte* from, std::byte* to) {
  RIDGE_TRY(recording, on.record_graph([&]() -> Status {
    for (int i = 0; i < timed_calls; ++i) RIDGE_TRY_STATUS(queue_redistribution(on, from, to));
    return Done{};
  }));
  std::vector<double> samples;
  for (int run = 0; run < timed_runs; ++run) {
    RIDGE_TRY_STATUS(transport::barrier(*comm_));
    RIDGE_TRY(took, on.measure_seconds([&] { return on.launch_graph(recording); }));
    samples.push_back(took / timed_calls);
  }
  return compute_statistics(std::move(samples)).median;
}

Status DeviceRedistributor::queue_redistribution(const device::Queue& queue, const std::byte* from, std::byte* to) {
  if (world_ == nullptr) return redistribute_through_host(queue, from, to);
  if (!comm_schedule().reduction_group().empty()) return queue_all_reduce(queue, from, to);
  if (comm_schedule().is_reduction()) return queue_reduce_scatter(queue, from, to);
  if (group_ == nullptr) return queue_exchange(queue, from, to);
  const auto bytes = comm_schedule().box_bytes(comm_schedule().block_before());
  if (active_small_ != nullptr) return active_small_->queue_call(queue, {from, to, static_cast<std::int64_t>(bytes)});
  return group_->all_gather(from, to, bytes, queue.stream());
}

Status DeviceRedistributor::redistribute_through_host(const device::Queue& queue, const std::byte* from,
                                                      std::byte* to) {
  const auto before = static_cast<std::int64_t>(comm_schedule().box_bytes(comm_schedule().block_before()));
  const auto after = static_cast<std::int64_t>(comm_schedule().box_bytes(comm_schedule().block_after()));
  std::vector<std::byte> host_before(before), host_after(static_cast<std::size_t>(after));
  if (before > 0) RIDGE_TRY_STATUS(queue.copy(host_before.data(), from, before));
  RIDGE_TRY_STATUS(queue.synchronize());
  RIDGE_TRY_STATUS(host_redistributor_.exchange_shards(*comm_, host_before.data(), host_after.data()));
  if (after > 0) RIDGE_TRY_STATUS(queue.copy(to, host_after.data(), after));
  return queue.synchronize();
}

Status DeviceRedistributor::queue_all_reduce(const device::Queue& queue, const std::byte* from, std::byte* to) const {
  const std::size_t elements = count_words(comm_schedule().block_after());
  const auto bytes = static_cast<std::int64_t>(comm_schedule().box_bytes(comm_schedule().block_after()));
  if (active_small_ != nullptr)
    return active_small_->queue_call(queue, {from, to, bytes, 0, true, comm_schedule().tensor().dtype});
  return group_->all_reduce({comm_schedule().tensor().dtype, comm_schedule().tensor().reduce_op}, from, to, elements,
                            queue.stream());
}

// A rank's position along the mesh axes is its number in `group_` and selects its slice.
Status DeviceRedistributor::queue_reduce_scatter(const device::Queue& queue, const std::byte* from,
                                                 std::byte* to) const {
  const CommunicationSchedule& r = comm_schedule();
  const std::size_t each = max_partial_bytes(r);
  if (each == 0) return Done{};
  const auto reduce = [&](const std::byte* partials, std::byte* received) {
    const auto bytes = static_cast<std::int64_t>(each);
    if (active_small_ != nullptr)
      return active_small_->queue_call(queue, {partials, received, bytes, bytes, true, r.tensor().dtype});
    const std::size_t elements = each / static_cast<std::size_t>(r.element_bytes());
    return group_->reduce_scatter({r.tensor().dtype, r.tensor().reduce_op}, partials, received, elements,
                                  queue.stream());
  };
  if (staging_.bytes() == 0) return reduce(from, to);
  std::byte* const received = staging_.data() + each * static_cast<std::size_t>(group_->size());
  for (const auto* messages : {&r.outgoing_messages(), &r.local_messages()})
    for (const MessageBuffer& p : *messages) {
      std::byte* const destination =
          staging_.data() + each * static_cast<std::size_t>(r.mesh().coordinate_along(p.peer, r.redistribution().over));
      RIDGE_TRY_STATUS(queue_pack(queue, from, r.block_before(), p, r.element_bytes(), destination));
    }
  RIDGE_TRY_STATUS(reduce(staging_.data(), received));
  for (const MessageBuffer& p : r.local_messages())
    RIDGE_TRY_STATUS(queue_unpack(queue, received, p, r.block_after(), r.element_bytes(), to));
  return Done{};
}

Status DeviceRedistributor::queue_exchange(const device::Queue& queue, const std::byte* from, std::byte* to) const {
  const CommunicationSchedule& r = comm_schedule();
  std::vector<transport::SendRequest> sent;
  std::vector<transport::ReceiveRequest> received;
  for (const auto* messages : {&r.outgoing_messages(), &r.local_messages()})
    for (const MessageBuffer& p : *messages)
      if (!p.is_contiguous)
        if (const Status packed =
                queue_pack(queue, from, r.block_before(), p, r.element_bytes(), staging_.data() + p.staging_offset);
            !packed)
          return packed;
  for (const MessageBuffer& p : r.outgoing_messages()) {
    const std::byte* const source = p.is_contiguous ? from + r.element_bytes() * element_offset(r.block_before(), p.box)
                                                    : staging_.data() + p.staging_offset;
    sent.push_back({static_cast<int>(p.peer), {source, r.box_bytes(p.box)}});
  }
  for (const MessageBuffer& p : r.incoming_messages()) {
    std::byte* const destination = p.is_contiguous ? to + r.element_bytes() * element_offset(r.block_after(), p.box)
                                                   : staging_.data() + p.staging_offset;
    received.push_back({static_cast<int>(p.peer), {destination, r.box_bytes(p.box)}});
  }
  if (!sent.empty() || !received.empty()) RIDGE_TRY_STATUS(world_->exchange_messages(sent, received, queue.stream()));
  for (const auto* messages : {&r.incoming_messages(), &r.local_messages()})
    for (const MessageBuffer& p : *messages)
      if (!p.is_contiguous)
        if (const Status unpacked =
                queue_unpack(queue, staging_.data() + p.staging_offset, p, r.block_after(), r.element_bytes(), to);
            !unpacked)
          return unpacked;
  return Done{};
}

namespace {

constexpr std::int64_t push_vector_bytes = 16;

}  // namespace

Result<std::unique_ptr<SmallCollective>> SmallCollective::make(PeerMemory& peer_memory, const std::vector<int>& group,
                                                               std::int64_t bytes) {
  const auto n = static_cast<int>(group.size());
  if (bytes > max_bytes || n > device::max_small_ranks) return std::unique_ptr<SmallCollective>();
  const device::SmallBufferLayout shape{(bytes + push_vector_bytes - 1) / push_vector_bytes * push_vector_bytes, n};
  const std::int64_t counts = static_cast<std::int64_t>(sizeof(device::CallCount)) * device::max_small_blocks;
  RIDGE_TRY(buffer, allocate_exportable_memory(shape.bytes() + counts));
  std::unique_ptr<SmallCollective> out(new SmallCollective(std::move(buffer)));
  RIDGE_TRY(queue, device::Queue::create());
  RIDGE_TRY_STATUS(queue.set_bytes(out->buffer_.data(), 0, out->buffer_.bytes()));
  RIDGE_TRY_STATUS(queue.synchronize());
  // Ranks receive the address only after the memory is zero.
  RIDGE_TRY(buffers, peer_memory.open_on_all_ranks(out->buffer_));
  out->shape_ = shape;
  for (std::size_t p = 0; p < group.size(); ++p) {
    out->message_.buffers[p] = buffers[group[p]];
    if (group[p] == peer_memory.rank()) out->message_.rank = static_cast<int>(p);
  }
  out->message_.call_counts = reinterpret_cast<device::CallCount*>(out->buffer_.data() + shape.bytes());
  return out;
}

Status SmallCollective::queue_call(const device::Queue& queue, const SmallCollectiveArgs& args) const {
  device::SmallMessage message = message_;
  message.from = args.from;
  message.to = args.to;
  message.bytes = args.bytes;
  message.stride_bytes = args.stride;
  message.is_sum = args.is_reduction;
  message.dtype = args.dtype;
  return device::queue_small_collective(queue, shape_, message);
}

}  // namespace ridge::ranks
