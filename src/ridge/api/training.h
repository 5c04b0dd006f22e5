// Shared code of layers of training steps on a device: cached plans and checks of addresses.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::api {

// Returns distinct placeholder addresses with the alignment of every call; choosing kernels needs only that.
inline void* placeholder_address(int i) { return reinterpret_cast<void*>(std::uintptr_t{1} << (40 + i)); }

// Thread-safe cache of plans by device and sizes. The cached type has the members `device` and `sizes`.
template <class CachedPlan> class PlanCache {
 public:
  template <class Make> Result<std::shared_ptr<const CachedPlan>> find_or_plan(int device,
                                                                               const decltype(CachedPlan::sizes)& sizes,
                                                                               const Make& make) {
    constexpr std::size_t max_plans = 256;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& cached : plans_)
        if (cached->device == device && cached->sizes == sizes) return cached;
    }
    RIDGE_TRY(planned, make(device, sizes));
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= max_plans) plans_.clear();
    plans_.push_back(planned);
    return planned;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const CachedPlan>> plans_;
};

struct NamedAddress {
  const char* name;
  const void* data;
  bool is_required = true;
};
// Checks addresses. Errors: a required array or scratch memory that is null or misaligned.
Status check_addresses(std::initializer_list<NamedAddress> arrays, const void* scratch, std::int64_t scratch_bytes);

}  // namespace ridge::api
