// Redistribution of a tensor between the devices of ranks, by NCCL: one collective if the shards have the layout that
// it needs, possibly after packing; otherwise point-to-point messages. Without NCCL the data goes through host memory.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ridge/device/device.h"
#include "ridge/measure/ranks/shift.h"
#include "ridge/measure/ranks/small_mover.h"
#include "ridge/transport/nccl.h"

namespace ridge::ranks {

// NCCL communicators of all ranks, and of the groups of ranks along some mesh axes.
class Joined {
 public:
  // Collective call. If NCCL is missing or cannot connect the devices, `unavailable_reason` says why, and data goes
  // through host memory. `existing` is the communicator of an earlier run; if it is null, `library` creates one.
  static Result<Joined> make(transport::Ranks& ranks, const Mesh& mesh, const std::string& library,
                             std::shared_ptr<const transport::Nccl> before);
  const transport::Nccl* all() const { return all_.get(); }  // is null without NCCL
  const std::string& why() const { return why_; }            // why `world` is null
  transport::Ranks& ranks() const { return *ranks_; }
  // Returns the communicator along these mesh axes. Collective call: all ranks make the same calls in the same order.
  Result<const transport::Nccl*> over(const std::string& letters);

 private:
  Joined(transport::Ranks& ranks, const Mesh& mesh) : ranks_(&ranks), mesh_(&mesh) {}
  transport::Ranks* ranks_;
  const Mesh* mesh_;
  std::shared_ptr<const transport::Nccl> all_;
  std::string why_;
  std::map<std::string, std::unique_ptr<transport::Nccl>> over_;
};

class DeviceMover {
 public:
  // Collective call. With `peer_memory` (null without peer access) a small collective is timed as one kernel and by
  // NCCL, and the faster one is used. Error: not enough memory on the device.
  static Result<DeviceMover> make(Route route, Joined& joined, Reach* reach);
  // Returns the timings, "all-gather over X: 4.1 us as one kernel, 8.3 us by NCCL", or "" if only NCCL can do it.
  const std::string& note() const { return note_; }
  // Returns the measured seconds, or nullopt for large redistributions, which are not timed in advance.
  std::optional<double> seconds() const { return collective_s_; }
  // True if the redistribution is small enough to be timed in advance. Collective call.
  static Result<bool> is_small(const Route& route, transport::Ranks& ranks);

  // `from` and `to` are device memory. Returns without waiting if NCCL is used; otherwise when the data has arrived.
  Status queue(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to);

 private:
  DeviceMover(Mover host, ops::cuda::Memory staging, const Joined& joined)
      : host_(std::move(host)), staging_(std::move(staging)), ranks_(&joined.ranks()), all_(joined.all()) {}
  const Route& route() const { return host_.route(); }
  Status try_small(Reach& reach);
  Result<double> timed(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to);
  Status through_host(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to);
  Status all_reduce(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to) const;
  Status reduce_scatter(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to) const;
  Status exchange(const ops::cuda::Queue& queue, const std::byte* from, std::byte* to) const;

  Mover host_;
  ops::cuda::Memory staging_;
  transport::Ranks* ranks_;
  const transport::Nccl* all_;             // may be null: data then goes through host memory
  const transport::Nccl* some_ = nullptr;  // along the mesh axes of the redistribution; null for messages
  std::string note_;
  std::optional<double> collective_s_ = {};
  std::unique_ptr<SmallMover> small_ = nullptr;
  const SmallMover* way_ = nullptr;  // `small_` if it is faster than NCCL, else null
};

}  // namespace ridge::ranks
