// A part whose acts are done on the rank's CUDA device: its slots lie there, the host's memory holds what goes up and
// comes down. Acts are queued one behind the other; a product and the move beside it go in chunks where that is
// predicted to be faster.
#pragma once

#include <variant>

#include "ridge/measure/ranks/device_shift.h"
#include "ridge/measure/ranks/in_chunks.h"
#include "ridge/measure/ranks/part.h"

namespace ridge::ranks {

struct OnDevice {
  const Machine& machine;
  const RunOptions& options;
  const std::vector<int>& stored;                      // tensors that are wanted whoever reads them
  std::string nccl = {};                               // the library's file; empty: the system's
  std::shared_ptr<const transport::Nccl> joined = {};  // Task's
  Chunks chunks = {};
};

class DevicePart {
 public:
  // To be called by all ranks at once, each with its device chosen. The part stays where it is. Errors: a step that
  // CUDA kernels do not run, not enough memory on the device.
  static Result<std::unique_ptr<DevicePart>> make(const Part& part, transport::Ranks& ranks, const OnDevice& how);

  Status upload() const;
  Status download() const;  // with what checks want to see, whoever reads it
  // Each act alone, then the whole pass as it is recorded: its wall time is that of one of several replays.
  Result<PassTimes> pass(transport::Ranks& ranks);

  std::string carrier() const;             // "NCCL 2.28.9"
  std::vector<std::string> notes() const;  // a line for each pair of acts that may go in chunks
  // What is predicted to be seen of all moves; none: of one of them nothing is known.
  std::optional<double> network_s() const { return network_s_; }
  std::optional<double> computing_s() const { return computing_s_; }  // of all kernels; none: of one of them

 private:
  struct Nothing {  // an act that another one does as well, or that leaves what stands there
  };
  using Act = std::variant<Nothing, DeviceSteps, DeviceMover, std::unique_ptr<InChunks>>;
  DevicePart(const Part& part, ops::cuda::Queue queue, Joined joined, SlotMemory slots)
      : part_(&part), queue_(std::move(queue)), joined_(std::move(joined)), slots_(std::move(slots)) {}
  Status make_acts(transport::Ranks& ranks, const OnDevice& how);
  Status make_pairs(transport::Ranks& ranks, const OnDevice& how);
  Status make_act(std::size_t act, const OnDevice& how);
  Route route_of(std::size_t act) const;
  bool records() const { return joined_.all() != nullptr; }
  Status queue_act(std::size_t act);
  Status queue_acts();
  Status time_act(std::size_t act, transport::Ranks& ranks, const Timer& since, PassTimes& times);
  Status time_compute(std::size_t act, PassTimes& times);
  Status time_chunks(const InChunks& chunks, PassTimes& times);
  Result<std::optional<double>> time_move(std::size_t act, transport::Ranks& ranks);
  static void expect(std::optional<double>& all, std::optional<double> seconds);
  Result<double> seconds_of_pass(transport::Ranks& ranks);

  const Part* part_;
  ops::cuda::Queue queue_;
  Joined joined_;
  SlotMemory slots_;
  std::unique_ptr<Reach> reach_;
  std::vector<Act> acts_;
  std::vector<DeviceMover> passed_over_;  // whose rooms the others still have open
  std::vector<std::string> notes_;
  std::optional<double> network_s_ = 0, computing_s_ = 0;
  std::optional<ops::cuda::Recording> recording_;
};

}  // namespace ridge::ranks
