#include "ridge/api/kept.h"

#include <filesystem>
#include <list>
#include <mutex>
#include <unordered_map>

namespace ridge::api {
namespace {

constexpr std::size_t most_kept = 256;

void append(std::string& key, std::int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string key_of(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  std::string key = request.program + '\0';
  for (const auto& [dim, value] : request.dims) {
    key += dim + '=';
    append(key, value);
  }
  append(key, request.dtype ? static_cast<int>(*request.dtype) : -1);
  append(key, request.fuse ? 1 : 0);
  append(key, request.device.value_or(-1));
  for (const std::string& name : request.wanted) key += name + '\0';
  key += '\0';
  for (const ArrayType& array : inputs) {
    key += array.name + '\0';
    append(key, static_cast<int>(array.dtype));
    append(key, static_cast<std::int64_t>(array.shape.size()));
    for (const std::int64_t extent : array.shape) append(key, extent);
  }
  return key;
}

class Shelf {
 public:
  std::optional<Computation> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return std::nullopt;
    all_.splice(all_.begin(), all_, found->second);
    return found->second->second;
  }
  void keep(const std::string& key, const Computation& computation) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(key)) return;
    all_.emplace_front(key, computation);
    places_[key] = all_.begin();
    if (all_.size() <= most_kept) return;
    places_.erase(all_.back().first);
    all_.pop_back();
  }

 private:
  using All = std::list<std::pair<std::string, Computation>>;  // the last one used first
  std::mutex mutex_;
  All all_;
  std::unordered_map<std::string, All::iterator> places_;
};

bool is_file(const std::string& program) {
  std::error_code ignored;
  return program == "-" || std::filesystem::exists(program, ignored);
}

}  // namespace

Result<Computation> kept(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  static Shelf shelf;
  const std::string key = key_of(request, inputs);
  if (auto found = shelf.find(key)) return *std::move(found);
  auto made = prepare(request, inputs);
  if (made && !is_file(request.program)) shelf.keep(key, *made);
  return made;
}

}  // namespace ridge::api
