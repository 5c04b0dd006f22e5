// A rank program that runs on the rank's CUDA device. Slots are in device memory; host memory is only copied to and
// from it. Steps run sequentially; a product and its redistribution run in chunks if that is predicted to be faster.
#pragma once

#include <variant>

#include "ridge/run/ranks/chunked_executor.h"
#include "ridge/run/ranks/device_redistribute.h"
#include "ridge/run/ranks/rank_program.h"

namespace ridge::ranks {

struct DeviceRunOptions {
  const Machine& machine;
  const RunOptions& run_options;
  const std::vector<int>& stored_tensors;                              // tensors that must be in memory at the end
  std::string nccl_library = {};                                       // path of the NCCL library; empty: the system's
  std::shared_ptr<const transport::NcclCommunicator> nccl_world = {};  // see RankRunRequest
  ChunkOptions chunk_options = {};
};

class DeviceRankProgram {
 public:
  // Collective call, after each rank has selected its device. The rank program must outlive the result and not move.
  // Errors: a step without a CUDA kernel; not enough memory on the device.
  static Result<std::unique_ptr<DeviceRankProgram>> make(const RankProgram& rank_program, transport::Communicator& comm,
                                                         const DeviceRunOptions& options);

  Status upload_slots() const;
  Status download_slots() const;  // including tensors that only verification reads
  // Times each step alone, then the recorded pass; `wall_s` is the mean over several replays.
  Result<PassTimes> run_pass(transport::Communicator& comm);

  std::string transport_name() const;      // for example "NCCL 2.28.9"
  std::vector<std::string> notes() const;  // a line for each pair that can run in chunks
  // Predicted network time that is not hidden; nullopt if a redistribution has no prediction.
  std::optional<double> predicted_network_s() const { return predicted_network_s_; }
  std::optional<double> predicted_compute_s() const {
    return predicted_compute_s_;
  }  // predicted time of all kernels, or nullopt

 private:
  struct EmptyStep {  // a step that is part of a chunked pair, or empty
  };
  using QueuedStep = std::variant<EmptyStep, DeviceSteps, DeviceRedistributor, std::unique_ptr<ChunkedExecutor>>;
  DeviceRankProgram(const RankProgram& rank_program, device::Queue queue, NcclGroups nccl_groups, SlotMemory slots)
      : rank_program_(&rank_program),
        queue_(std::move(queue)),
        nccl_groups_(std::move(nccl_groups)),
        slots_(std::move(slots)) {}
  Status make_steps(transport::Communicator& comm, const DeviceRunOptions& options);
  Status make_chunked_pairs(transport::Communicator& comm, const DeviceRunOptions& options);
  Status make_step(std::size_t step_index, const DeviceRunOptions& options);
  CommunicationSchedule make_comm_schedule(std::size_t step_index) const;
  bool can_record_graph() const { return nccl_groups_.world() != nullptr; }
  Status queue_step(std::size_t step_index);
  Status queue_all_steps();
  Status time_step(std::size_t step_index, transport::Communicator& comm, const Timer& since, PassTimes& times);
  Status time_compute(std::size_t step_index, PassTimes& times);
  Status time_chunked_pair(const ChunkedExecutor& executor, PassTimes& times);
  Result<std::optional<double>> time_redistribution(std::size_t step_index, transport::Communicator& comm);
  static void add_prediction(std::optional<double>& all, std::optional<double> seconds);
  Result<double> time_pass(transport::Communicator& comm);

  const RankProgram* rank_program_;
  device::Queue queue_;
  NcclGroups nccl_groups_;
  SlotMemory slots_;
  std::unique_ptr<PeerMemory> peer_memory_;
  std::vector<QueuedStep> steps_;
  std::vector<DeviceRedistributor> replaced_redistributors_;  // kept because other ranks have mapped their buffers
  std::vector<std::string> notes_;
  std::optional<double> predicted_network_s_ = 0, predicted_compute_s_ = 0;
  std::optional<device::RecordedGraph> recording_;
};

}  // namespace ridge::ranks
