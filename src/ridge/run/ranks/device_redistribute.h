// Redistribution of a tensor between the devices of ranks, by NCCL: one collective if the shards have the layout that
// it needs, possibly after packing; otherwise point-to-point messages. Without NCCL the data goes through host memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/device/device.h"
#include "ridge/run/ranks/redistribute.h"
#include "ridge/run/ranks/small_collective.h"
#include "ridge/transport/nccl.h"

namespace ridge::ranks {

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
