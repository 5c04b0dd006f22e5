// Arrays of a vector kernel in this process's memory, and its timing on threads. Each thread processes a part of its
// own. Concurrent threads are timed by the CPU time of the slowest one, which other processes disturb less than wall
// time.
#pragma once

#include <optional>
#include <vector>

#include "ridge/bench/vector_kernel.h"
#include "ridge/run/memory.h"

namespace ridge {

// Returns the seconds of `calls` calls of part(worker) on each of `threads` threads, by the slowest thread.
double time_slowest_thread(int threads, int calls, const std::function<void(int worker)>& part);

class CpuArrays {
 public:
  // Fills the first `inputs` arrays with normal numbers and poisons the others. `counts[i]` are the elements of array
  // i. Each thread processes a multiple of `granularity` elements.
  static Result<CpuArrays> make(DType dtype, const std::vector<std::int64_t>& counts, std::size_t inputs, int threads,
                                std::int64_t granularity);

  int threads() const { return threads_; }
  std::int64_t elements_per_thread() const { return elements_per_thread_; }
  std::int64_t elements() const { return elements_per_thread_ * threads_; }  // Processed by all threads
  std::byte* address(std::size_t array, std::int64_t element) const {
    return arrays_[array].array().data + element * dtype_bits(arrays_[array].array().dtype) / 8;
  }
  Result<std::vector<double>> read_values(std::size_t array, std::int64_t first, std::int64_t count) const;
  Status poison(std::size_t array) const {
    poison_array(arrays_[array].array(), threads_);
    return Done{};
  }

  // Returns the seconds of `calls` calls of the kernel over `each` elements (whole rows) per thread.
  double time_kernel(const KernelStep& step, std::int64_t each, int calls) const;
  // Returns the seconds of all steps, each over all elements.
  Result<double> time_steps(const std::vector<KernelStep>& steps) const;

 private:
  std::vector<ArrayStorage> arrays_;
  int threads_ = 1;
  std::int64_t elements_per_thread_ = 0;
};

}  // namespace ridge
