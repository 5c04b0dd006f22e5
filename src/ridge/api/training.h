// What layers of training steps on a device have in common: plans that are kept, and addresses that are looked at.
// Internal to api/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::api {

// Addresses that are aligned as those of every call: what a choice of kernels asks about them.
inline void* stand_in(int i) { return reinterpret_cast<void*>(std::uintptr_t{1} << (40 + i)); }

// What was planned for a device and sizes, or is planned now: the last of them are kept. Parts have `device` and
// `sizes`. From any thread.
template <class Parts> class KeptPlans {
 public:
  template <class Make>
  Result<std::shared_ptr<const Parts>> get(int device, const decltype(Parts::sizes)& sizes, const Make& make) {
    constexpr std::size_t most_kept = 256;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& known : all_)
        if (known->device == device && known->sizes == sizes) return known;
    }
    const Result<std::shared_ptr<const Parts>> made = make(device, sizes);
    if (!made) return made.error();
    const std::lock_guard lock(mutex_);
    if (all_.size() >= most_kept) all_.clear();
    all_.push_back(*made);
    return *made;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Parts>> all_;
};

struct NamedAddress {
  const char* name;
  const void* data;
  bool wanted = true;
};
// Errors: an array that is null or off the kernels' words; scratch that is wanted and null or off its lines.
Status check_addresses(std::initializer_list<NamedAddress> arrays, const void* scratch, std::int64_t scratch_bytes);

// What a launch said.
Status launched(const std::optional<std::string>& trouble);

}  // namespace ridge::api
