// The program of one rank: memory of its shards, kernels of its compute steps, and its side of every redistribution.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "ridge/plan/plan.h"
#include "ridge/plan/ranks/rank_schedule.h"
#include "ridge/run/memory.h"
#include "ridge/run/ranks/redistribute.h"
#include "ridge/run/run_options.h"

namespace ridge::ranks {

// Times of one pass over all steps, in seconds.
struct PassTimes {
  std::vector<double> statement_s;  // compute and network time, at the first statement of each kernel
  double compute_s = 0, network_s = 0, wait_s = 0, wall_s = 0;
  struct StepTime {  // times since the start of the pass: waiting from `wait_begin_s` to `begin_s`, then the step
    double wait_begin_s = 0, begin_s = 0, end_s = 0;
  };
  std::vector<StepTime> step_times = {};
};

// Plans the program of a compute step for the CPU or the CUDA device, as the options request.
Result<Plan> plan_local_program(const Program& program, const RunOptions& options);

class RankProgram {
 public:
  // Errors: those of `build_rank_schedule` and `plan`; a kernel that this CPU does not support.
  static Result<RankProgram> make(const Program& program, const Bindings& sizes, const MeshDevice& device,
                                  const RunOptions& options);

  const RankSchedule& schedule() const { return schedule_; }
  const MeshDevice& mesh_device() const { return *device_; }
  // For each statement the first statement of its kernel, or -1 if this rank has nothing to compute.
  std::vector<int> kernel_first_statements() const;
  std::vector<std::string> layout_copies() const;  // copies that change a layout, for example "w[F, D] to [D, F] order"

  std::size_t statement_count() const { return statement_count_; }
  const Plan* plan_of_step(std::size_t step_index) const;  // is null for a redistribution or an empty step

  std::int64_t memory_bytes() const;
  Status allocate_memory();
  // Fills the shards of inputs. `full` writes all elements of an input to the given memory. All other memory is NaN.
  Status fill_inputs(const Program& program, const std::function<Status(int tensor, const Array& full)>& full);

  bool is_stored(int slot) const { return is_stored_[slot]; }
  Array slot_array(int slot) const { return storage_[slot]->array(); }
  ShardBox slot_block(int slot) const;

  Result<PassTimes> run_pass(transport::Communicator& comm);
  std::int64_t words_sent_per_pass() const;

 private:
  struct PreparedStep {  // a compute step with its kernels
    Plan plan;
    std::vector<ArrayStorage> scratch;  // buffers of the plan after those of the tensors
    std::vector<std::vector<void*>> step_arguments;
  };
  Status plan_steps(const RunOptions& options);
  void find_stored_slots(const Program& program);
  void fill_empty_results(const ComputeStep& compute);
  void bind_buffers(const ComputeStep& compute, PreparedStep& prepared);
  void run_compute_step(std::size_t step_index, PassTimes& times);
  Status run_redistribution(std::size_t step_index, transport::Communicator& comm, const Timer& since,
                            PassTimes& times);

  const MeshDevice* device_ = nullptr;
  RankSchedule schedule_;
  int threads_ = 1;
  bool cuda_ = false;  // true if a CUDA device runs the steps; memory here is then copied to and from it
  std::size_t statement_count_ = 0;
  std::vector<std::variant<PreparedStep, Redistributor>> prepared_;  // one for each step
  std::vector<bool> is_stored_;
  std::vector<std::optional<ArrayStorage>> storage_;
};

// Gathers the shards of a tensor at rank 0.
struct GatheredTensor {
  std::optional<ArrayStorage> values;  // partial sums are added up, in f32; nullopt if this is not rank 0
  // Sums of the magnitudes of partial sums, for error bounds; empty if the tensor has no partial sums.
  std::vector<double> magnitudes = {};
};

// Collective call. Error: not enough memory.
Result<GatheredTensor> gather_tensor(const RankProgram& rank_program, int slot, transport::Communicator& comm);

}  // namespace ridge::ranks
