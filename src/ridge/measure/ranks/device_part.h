// A rank program that runs on the rank's CUDA device. Slots are in device memory; host memory is only copied to and
// from it. Steps run sequentially; a product and its redistribution run in chunks if that is predicted to be faster.
#pragma once

#include <variant>

#include "ridge/measure/ranks/device_shift.h"
#include "ridge/measure/ranks/in_chunks.h"
#include "ridge/measure/ranks/part.h"

namespace ridge::ranks {

struct OnDevice {
  const Machine& machine;
  const RunOptions& options;
  const std::vector<int>& stored;                      // tensors that must be in memory at the end
  std::string nccl = {};                               // path of the NCCL library; empty: the system's
  std::shared_ptr<const transport::Nccl> joined = {};  // see RankRunRequest
  Chunks chunks = {};
};

class DevicePart {
 public:
  // Collective call, after each rank has selected its device. The rank program must outlive the result and not move.
  // Errors: a step without a CUDA kernel; not enough memory on the device.
  static Result<std::unique_ptr<DevicePart>> make(const Part& part, transport::Ranks& ranks, const OnDevice& how);

  Status upload() const;
  Status download() const;  // including tensors that only verification reads
  // Times each step alone, then the recorded pass; `wall_s` is the mean over several replays.
  Result<PassTimes> pass(transport::Ranks& ranks);

  std::string carrier() const;             // for example "NCCL 2.28.9"
  std::vector<std::string> notes() const;  // a line for each pair that can run in chunks
  // Predicted network time that is not hidden; nullopt if a redistribution has no prediction.
  std::optional<double> network_s() const { return network_s_; }
  std::optional<double> computing_s() const { return computing_s_; }  // predicted time of all kernels, or nullopt

 private:
  struct Nothing {  // a step that is part of a chunked pair, or empty
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
  std::vector<DeviceMover> passed_over_;  // kept because other ranks have mapped their buffers
  std::vector<std::string> notes_;
  std::optional<double> network_s_ = 0, computing_s_ = 0;
  std::optional<ops::cuda::Recording> recording_;
};

}  // namespace ridge::ranks
