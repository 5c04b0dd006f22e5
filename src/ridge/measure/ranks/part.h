// What one device of a mesh holds and does: the memory of its parts, the kernels of its programs, its side of every
// move.
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

// Seconds of a pass.
struct PassTimes {
  std::vector<double> statements;  // computing and moving, each at the first statement of its kernel
  double compute_s = 0, network_s = 0, wait_s = 0, wall_s = 0;
  struct Span {  // since the pass began: a wait, from `wait` to `begin`, and then what is done
    double wait = 0, begin = 0, end = 0;
  };
  std::vector<Span> acts = {};
};

// Of a program of a device's own, for where the options say that it runs.
Result<Plan> plan_part(const Program& program, const RunOptions& options);

class Part {
 public:
  // Errors: acts_of()'s, plan()'s, a kernel that this CPU lacks.
  static Result<Part> make(const Program& program, const Bindings& sizes, const Device& device,
                           const RunOptions& options);

  const Acts& acts() const { return acts_; }
  const Device& device() const { return *device_; }
  // The statements that share a kernel: of each statement the first of them; -1: there is nothing to compute here.
  std::vector<int> kernel_of_statements() const;
  std::vector<std::string> copies() const;  // "w[F, D] to [D, F] order"

  std::size_t statements() const { return statements_; }
  const Plan* plan_of(std::size_t act) const;  // null: the act moves, or has nothing to compute

  std::int64_t memory_bytes() const;
  Status allocate();
  // Inputs come from `whole`, which is given a tensor and memory for all of it; everything else is NaN.
  Status fill(const Program& program, const std::function<Status(int tensor, const Array& whole)>& whole);

  bool lies_in_memory(int slot) const { return is_stored_[static_cast<std::size_t>(slot)]; }
  Array array(int slot) const { return storage_[static_cast<std::size_t>(slot)]->array(); }
  Block block(int slot) const;

  Result<PassTimes> pass(transport::Ranks& ranks);
  std::int64_t words_sent() const;  // a pass

 private:
  struct Ready {  // a program of the device's own with its kernels
    Plan plan;
    std::vector<ArrayStorage> copies;  // memory behind its tensors'
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
  bool cuda_ = false;  // acts are done on a device: the memory here is what goes there and comes back
  std::size_t statements_ = 0;
  std::vector<std::variant<Ready, Mover>> ready_;  // of each act
  std::vector<bool> is_stored_;
  std::vector<std::optional<ArrayStorage>> storage_;
};

}  // namespace ridge::ranks
