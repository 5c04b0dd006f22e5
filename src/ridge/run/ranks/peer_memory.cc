#include "ridge/run/ranks/peer_memory.h"

#include <algorithm>
#include <array>

#include "ridge/base/timer.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t timed_bytes = std::int64_t{64} << 20;  // bytes of the timed long copy
constexpr std::int64_t timed_copies = 8;                      // number of copies into which it is split
constexpr std::size_t timing_flags = 2 + timed_copies;
constexpr int link_timing_runs = 9;
constexpr std::int64_t allocation_bytes = std::int64_t{2} << 20;  // CUDA puts small buffers into one

}  // namespace

Result<device::DeviceBuffer> allocate_exportable_memory(std::int64_t bytes) {
  return device::DeviceBuffer::allocate((bytes + allocation_bytes) / allocation_bytes * allocation_bytes);
}

device::DeviceFlag* PeerMemory::flag_address(std::byte* flags, std::size_t flag, int other) const {
  return reinterpret_cast<device::DeviceFlag*>(flags) + flag * static_cast<std::size_t>(size()) +
         static_cast<std::size_t>(other);
}

Result<std::unique_ptr<PeerMemory>> PeerMemory::make(transport::Communicator& comm, std::size_t flags) {
  const std::size_t words = (flags + timing_flags) * static_cast<std::size_t>(comm.size());
  auto memory = allocate_exportable_memory(static_cast<std::int64_t>(words * sizeof(device::DeviceFlag)));
  RIDGE_TRY_STATUS(transport::agree_on_status(comm, memory ? Status(Done{}) : memory.error()));
  std::unique_ptr<PeerMemory> out(new PeerMemory(comm, flags + timing_flags, *std::move(memory)));
  RIDGE_TRY(queue, device::Queue::create());
  RIDGE_TRY_STATUS(queue.set_bytes(out->flags_.data(), 0, out->flags_.bytes()));
  RIDGE_TRY_STATUS(queue.synchronize());
  auto peer_flags = out->open_on_all_ranks(out->flags_);
  if (!peer_flags && peer_flags.error().kind == ErrorKind::absent) return std::unique_ptr<PeerMemory>();
  RIDGE_TRY_STATUS(peer_flags);
  out->peer_flags_ = *std::move(peer_flags);
  RIDGE_TRY_STATUS(out->measure_links());
  return out;
}

Result<std::vector<std::byte*>> PeerMemory::open_on_all_ranks(const device::DeviceBuffer& memory) {
  const auto mine = device::export_handle(memory);
  RIDGE_TRY_STATUS(transport::agree_on_status(*comm_, mine ? Status(Done{}) : mine.error()));
  std::vector<device::MemoryHandle> names(size(), *mine);
  std::vector<transport::SendRequest> sent;
  std::vector<transport::ReceiveRequest> received;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sent.push_back({r, mine->bytes});
    received.push_back({r, names[r].bytes});
  }
  RIDGE_TRY_STATUS(comm_->exchange_messages(sent, received));
  std::vector<std::byte*> out;
  Status opened = Done{};
  for (int r = 0; r < size(); ++r) {
    out.push_back(r == rank() ? memory.data() : nullptr);
    if (r == rank() || !opened) continue;
    auto peer = device::ImportedMemory::open(names[r]);
    if (peer) {
      out.back() = peer->data();
      mapped_.push_back(*std::move(peer));
    } else {
      opened = peer.error();
    }
  }
  RIDGE_TRY_STATUS(transport::agree_on_status(*comm_, opened));
  return out;
}

Status PeerMemory::set_flags(const device::Queue& queue, std::size_t flag, const std::vector<int>& others) const {
  std::vector<device::DeviceFlag*> flags;
  for (const int r : others) flags.push_back(peer_flag(r, flag));
  return device::set_flags(queue, flags);
}

Status PeerMemory::wait_and_reset_flags(const device::Queue& queue, std::size_t flag,
                                        const std::vector<int>& others) const {
  std::vector<device::DeviceFlag*> flags;
  for (const int r : others) flags.push_back(flag_address(flags_.data(), flag, r));
  return device::wait_and_reset_flags(queue, flags);
}

// Every rank copies to the next one. The last flags are reserved for this. Kinds of work: flag only; flag and 256 B
// written; and a long write; and a long read; and the long write in several copies; and the same with a wait after each
// copy.
Status PeerMemory::queue_link_work(const device::Queue& queue, std::size_t kind, std::byte* peer,
                                   std::byte* own) const {
  const std::size_t first_flag = flag_count_ - timing_flags;
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  RIDGE_TRY_STATUS(set_flags(queue, first_flag, {previous}));
  RIDGE_TRY_STATUS(wait_and_reset_flags(queue, first_flag, {next}));
  if (kind == 0) return Done{};
  if (kind < 3) return queue.copy(peer, own, kind == 2 ? timed_bytes : 256);
  if (kind == 3) return queue.copy(own, peer, timed_bytes);
  const device::AwaitedFlag no_wait{
      .flag = flag_address(flags_.data(), flag_count_ - 1, next), .value = 0, .keeps_value = true};
  for (std::int64_t i = 0; i < timed_copies; ++i) {
    const std::int64_t each = timed_bytes / timed_copies;
    auto* const peer_done = peer_flag(next, first_flag + 1 + static_cast<std::size_t>(i));
    RIDGE_TRY_STATUS(queue.copy(peer + i * each, own + i * each, each));
    RIDGE_TRY_STATUS(device::set_and_wait_flags(queue, {&peer_done, 1}, {&no_wait, kind - 4}));
  }
  for (std::int64_t i = 0; i < timed_copies; ++i)
    RIDGE_TRY_STATUS(wait_and_reset_flags(queue, first_flag + 1 + static_cast<std::size_t>(i), {previous}));
  return Done{};
}

Status PeerMemory::measure_links() {
  RIDGE_TRY(queue, device::Queue::create());
  auto to = device::DeviceBuffer::allocate(timed_bytes), from = device::DeviceBuffer::allocate(timed_bytes);
  Status allocated = Done{};
  for (const auto* memory : {&to, &from})
    if (!*memory) allocated = memory->error();
  RIDGE_TRY_STATUS(transport::agree_on_status(*comm_, allocated));
  RIDGE_TRY(all, open_on_all_ranks(*to));
  const std::size_t mapped_before = mapped_.size() - static_cast<std::size_t>(size() - 1);
  std::byte* const peer_data = all[(rank() + 1) % size()];
  std::array<double, 6> seconds{};
  for (std::size_t kind = 0; kind < seconds.size(); ++kind) {
    std::vector<double> samples;
    for (int run = 0; run < link_timing_runs; ++run) {
      RIDGE_TRY_STATUS(transport::barrier(*comm_));
      RIDGE_TRY(took, queue.measure_seconds([&] { return queue_link_work(queue, kind, peer_data, from->data()); }));
      if (run > 1) samples.push_back(took);
    }
    seconds[kind] = compute_statistics(std::move(samples)).min;
  }
  RIDGE_TRY_STATUS(transport::broadcast(*comm_, std::as_writable_bytes(std::span(seconds))));
  link_costs_.barrier_s = seconds[0];
  link_costs_.latency_s = seconds[1];
  link_costs_.write_bytes_per_s = static_cast<double>(timed_bytes) / std::max(1e-9, seconds[2] - seconds[1]);
  link_costs_.read_bytes_per_s = static_cast<double>(timed_bytes) / std::max(1e-9, seconds[3] - seconds[1]);
  link_costs_.copy_overhead_s = std::max(0.0, seconds[4] - seconds[2]) / static_cast<double>(timed_copies);
  link_costs_.awaited_copy_overhead_s = std::max(0.0, seconds[5] - seconds[2]) / static_cast<double>(timed_copies);
  mapped_.erase(mapped_.begin() + static_cast<std::ptrdiff_t>(mapped_before),
                mapped_.end());  // before a rank frees the memory
  return transport::barrier(*comm_);
}

}  // namespace ridge::ranks
