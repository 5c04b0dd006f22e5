// A move between the devices of ranks, by NCCL: the collective of the same name where the parts lie as it wants them,
// with packing around it where they do not, else pieces sent and received. Where NCCL does not join the devices,
// through the memory of the host.
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

// The ranks' devices, and those of them that share all coordinates but some mesh axes'.
class Joined {
 public:
  // To be called by all ranks at once. Without NCCL, or with devices that it does not join: why, and all goes through
  // the host. `before`: as they were joined for another run; null: they are joined now, by this library.
  static Result<Joined> make(transport::Ranks& ranks, const Mesh& mesh, const std::string& library,
                             std::shared_ptr<const transport::Nccl> before);
  const transport::Nccl* all() const { return all_.get(); }  // null: through the host
  const std::string& why() const { return why_; }            // it is null
  transport::Ranks& ranks() const { return *ranks_; }
  // Over these mesh axes; all ranks ask for the same ones in the same order.
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
  // To be called by all ranks at once. `reach`: null where devices do not reach each other's memory; else a collective
  // of few bytes goes through it, if that is faster here. Errors: no memory on the device.
  static Result<DeviceMover> make(Route route, Joined& joined, Reach* reach);
  // "all-gather over X: 4.1 us as one kernel, 8.3 us by NCCL": as they were timed; empty: only NCCL will do.
  const std::string& note() const { return note_; }
  // As it was timed; none: it has too many bytes to be timed before it is used.
  std::optional<double> seconds() const { return collective_s_; }
  // Whether it is timed, where devices reach each other. To be called by all ranks at once.
  static Result<bool> is_small(const Route& route, transport::Ranks& ranks);

  // `from` and `to` lie on the device. Returns at once where NCCL moves; else when the move is done.
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
  const transport::Nccl* all_;             // null: through the host
  const transport::Nccl* some_ = nullptr;  // over the move's mesh axes, for the collectives
  std::string note_;
  std::optional<double> collective_s_ = {};
  std::unique_ptr<SmallMover> small_ = nullptr;
  const SmallMover* way_ = nullptr;  // the collective goes through it
};

}  // namespace ridge::ranks
