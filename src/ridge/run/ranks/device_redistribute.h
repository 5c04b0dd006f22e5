// Redistribution of a tensor between the devices of ranks, by NCCL: one collective if the shards have the layout that
// it needs, possibly after packing; otherwise point-to-point messages. Without NCCL the data goes through host memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/device.h"
#include "ridge/device/small_messages.h"
#include "ridge/run/ranks/peer_memory.h"
#include "ridge/run/ranks/redistribute.h"
#include "ridge/transport/nccl.h"

namespace ridge::ranks {

// Arguments of a small collective between devices with peer access, one kernel (device/small_messages.h). Position p of
// the group gets `bytes` bytes from `from` + p * `stride`. Received data is added up in `to`, or stored there
// contiguously.
struct SmallCollectiveArgs {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0, stride = 0;
  bool is_reduction = false;
  DType dtype = DType::f32;
};

class SmallCollective {
 public:
  // Upper limit on the bytes of a message; the receive buffer is 2 * ranks times as large.
  static constexpr std::int64_t max_bytes = std::int64_t{4} << 20;
  // Prepares collectives of up to `bytes` bytes in `group`, which includes this rank. Collective call of all ranks, of
  // every group. Returns null if `bytes` or the group exceeds the limits.
  static Result<std::unique_ptr<SmallCollective>> make(PeerMemory& peer_memory, const std::vector<int>& group,
                                                       std::int64_t bytes);
  Status queue_call(const device::Queue& queue, const SmallCollectiveArgs& args) const;

 private:
  explicit SmallCollective(device::DeviceBuffer buffer) : buffer_(std::move(buffer)) {}
  device::DeviceBuffer buffer_;  // receive buffer, followed by this rank's call counts
  device::SmallBufferLayout shape_;
  device::SmallMessage message_;
};

// NCCL communicators of all ranks, and of the groups of ranks along some mesh axes.
class NcclGroups {
 public:
  // Collective call. If NCCL is missing or cannot connect the devices, `unavailable_reason` says why, and data goes
  // through host memory. `existing` is the communicator of an earlier run; if it is null, `library` creates one.
  static Result<NcclGroups> make(transport::Communicator& comm, const Mesh& mesh, const std::string& library,
                                 std::shared_ptr<const transport::NcclCommunicator> existing);
  const transport::NcclCommunicator* world() const { return world_.get(); }  // is null without NCCL
  const Reason& unavailable_reason() const { return unavailable_reason_; }   // why `world` is null
  transport::Communicator& comm() const { return *comm_; }
  // Returns the communicator along these mesh axes. Collective call: all ranks make the same calls in the same order.
  Result<const transport::NcclCommunicator*> group_along(const std::string& letters);

 private:
  NcclGroups(transport::Communicator& comm, const Mesh& mesh) : comm_(&comm), mesh_(&mesh) {}
  transport::Communicator* comm_;
  const Mesh* mesh_;
  std::shared_ptr<const transport::NcclCommunicator> world_;
  Reason unavailable_reason_;
  std::map<std::string, std::unique_ptr<transport::NcclCommunicator>> groups_;
};

class DeviceRedistributor {
 public:
  // Collective call. With `peer_memory` (null without peer access) a small collective is timed as one kernel and by
  // NCCL, and the faster one is used. Error: not enough memory on the device.
  static Result<DeviceRedistributor> make(CommunicationSchedule comm_schedule, NcclGroups& nccl_groups,
                                          PeerMemory* peer_memory);
  // Returns the timings, "all-gather over X: 4.1 us as one kernel, 8.3 us by NCCL", or "" if only NCCL can do it.
  const std::string& timing_note() const { return timing_note_; }
  // Returns the measured seconds, or nullopt for large redistributions, which are not timed in advance.
  std::optional<double> measured_s() const { return measured_s_; }
  // True if the redistribution is small enough to be timed in advance. Collective call.
  static Result<bool> is_small(const CommunicationSchedule& comm_schedule, transport::Communicator& comm);

  // `from` and `to` are device memory. Returns without waiting if NCCL is used; otherwise when the data has arrived.
  Status queue_redistribution(const device::Queue& queue, const std::byte* from, std::byte* to);

 private:
  DeviceRedistributor(Redistributor host, device::DeviceBuffer staging, const NcclGroups& nccl_groups)
      : host_redistributor_(std::move(host)),
        staging_(std::move(staging)),
        comm_(&nccl_groups.comm()),
        world_(nccl_groups.world()) {}
  const CommunicationSchedule& comm_schedule() const { return host_redistributor_.comm_schedule(); }
  Status compare_small_collective(PeerMemory& peer_memory);
  Result<double> time_calls(const device::Queue& queue, const std::byte* from, std::byte* to);
  Status redistribute_through_host(const device::Queue& queue, const std::byte* from, std::byte* to);
  Status queue_all_reduce(const device::Queue& queue, const std::byte* from, std::byte* to) const;
  Status queue_reduce_scatter(const device::Queue& queue, const std::byte* from, std::byte* to) const;
  Status queue_exchange(const device::Queue& queue, const std::byte* from, std::byte* to) const;

  Redistributor host_redistributor_;
  device::DeviceBuffer staging_;
  transport::Communicator* comm_;
  const transport::NcclCommunicator* world_;            // may be null: data then goes through host memory
  const transport::NcclCommunicator* group_ = nullptr;  // along the mesh axes of the redistribution; null for messages
  std::string timing_note_;
  std::optional<double> measured_s_ = {};
  std::unique_ptr<SmallCollective> small_ = nullptr;
  const SmallCollective* active_small_ = nullptr;  // `small_` if it is faster than NCCL, else null
};

}  // namespace ridge::ranks
