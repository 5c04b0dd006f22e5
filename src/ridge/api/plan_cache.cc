#include "ridge/api/plan_cache.h"

#include <filesystem>
#include <list>
#include <mutex>
#include <unordered_map>

namespace ridge::api {
namespace {

constexpr std::size_t max_cached = 256;

void append_number(std::string& key, std::int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string make_key(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  std::string key = request.program + '\0';
  for (const auto& [dim, value] : request.dims) {
    key += dim + '=';
    append_number(key, value);
  }
  append_number(key, request.dtype ? static_cast<int>(*request.dtype) : -1);
  append_number(key, request.fuse ? 1 : 0);
  append_number(key, request.device.value_or(-1));
  for (const std::string& name : request.requested_results) key += name + '\0';
  key += '\0';
  for (const ArrayType& array : inputs) {
    key += array.name + '\0';
    append_number(key, static_cast<int>(array.dtype));
    append_number(key, static_cast<std::int64_t>(array.shape.size()));
    for (const std::int64_t extent : array.shape) append_number(key, extent);
  }
  return key;
}

class ComputationCache {
 public:
  std::optional<Computation> find_cached(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = positions_.find(key);
    if (found == positions_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->second;
  }
  void add_computation(const std::string& key, const Computation& computation) {
    const std::lock_guard lock(mutex_);
    if (positions_.contains(key)) return;
    entries_.emplace_front(key, computation);
    positions_[key] = entries_.begin();
    if (entries_.size() <= max_cached) return;
    positions_.erase(entries_.back().first);
    entries_.pop_back();
  }

 private:
  using Entries = std::list<std::pair<std::string, Computation>>;  // Most recently used first
  std::mutex mutex_;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> positions_;
};

bool is_file(const std::string& program) {
  std::error_code ignored;
  return program == "-" || std::filesystem::exists(program, ignored);
}

}  // namespace

Result<Computation> prepare_cached(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  static ComputationCache cache;
  const std::string key = make_key(request, inputs);
  if (auto found = cache.find_cached(key)) return *std::move(found);
  auto made = prepare(request, inputs);
  if (made && !is_file(request.program)) cache.add_computation(key, *made);
  return made;
}

}  // namespace ridge::api
