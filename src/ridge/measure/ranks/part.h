// The program of one rank: memory of its shards, kernels of its compute steps, and its side of every redistribution.
#pragma once

#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "ridge/measure/memory.h"
#include "ridge/measure/ranks/lower.h"
#include "ridge/measure/ranks/shift.h"
#include "ridge/measure/run.h"
#include "ridge/plan/plan.h"

namespace ridge::ranks {

// Times of one pass over all steps, in seconds.
struct PassTimes {
  std::vector<double> statements;  // compute and network time, at the first statement of each kernel
  double compute_s = 0, network_s = 0, wait_s = 0, wall_s = 0;
  struct Span {  // times since the start of the pass: waiting from `wait_begin_s` to `begin_s`, then the step
    double wait = 0, begin = 0, end = 0;
  };
  std::vector<Span> acts = {};
};

// Plans the program of a compute step for the CPU or the CUDA device, as the options request.
Result<Plan> plan_part(const Program& program, const RunOptions& options);

class Part {
 public:
  // Errors: those of `build_rank_schedule` and `plan`; a kernel that this CPU does not support.
  static Result<Part> make(const Program& program, const Bindings& sizes, const Device& device,
                           const RunOptions& options);

  const Acts& acts() const { return acts_; }
  const Device& device() const { return *device_; }
  // For each statement the first statement of its kernel, or -1 if this rank has nothing to compute.
  std::vector<int> kernel_of_statements() const;
  std::vector<std::string> copies() const;  // copies that change a layout, for example "w[F, D] to [D, F] order"

  std::size_t statements() const { return statements_; }
  const Plan* plan_of(std::size_t act) const;  // is null for a redistribution or an empty step

  std::int64_t memory_bytes() const;
  Status allocate();
  // Fills the shards of inputs. `full` writes all elements of an input to the given memory. All other memory is NaN.
  Status fill(const Program& program, const std::function<Status(int tensor, const Array& whole)>& whole);

  bool lies_in_memory(int slot) const { return is_stored_[static_cast<std::size_t>(slot)]; }
  Array array(int slot) const { return storage_[static_cast<std::size_t>(slot)]->array(); }
  Block block(int slot) const;

  Result<PassTimes> pass(transport::Ranks& ranks);
  std::int64_t words_sent() const;

 private:
  struct Ready {  // a compute step with its kernels
    Plan plan;
    std::vector<ArrayStorage> copies;  // buffers of the plan after those of the tensors
    std::vector<std::vector<void*>> data;
  };
  Status plan_all(const RunOptions& options);
  void find_stored(const Program& program);
  void put_nothing(const Compute& compute);
  void bind(const Compute& compute, Ready& ready);
  void compute(std::size_t act, PassTimes& times);
  Status move(std::size_t act, transport::Ranks& ranks, const Timer& since, PassTimes& times);

  const Device* device_ = nullptr;
  Acts acts_;
  int threads_ = 1;
  bool cuda_ = false;  // true if a CUDA device runs the steps; memory here is then copied to and from it
  std::size_t statements_ = 0;
  std::vector<std::variant<Ready, Mover>> ready_;  // one for each step
  std::vector<bool> is_stored_;
  std::vector<std::optional<ArrayStorage>> storage_;
};

}  // namespace ridge::ranks
