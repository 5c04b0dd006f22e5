#include "ridge/onnx/live_bytes.h"

namespace ridge::onnx {

void LiveResults::add_alias(const std::string& name, const std::string& of) {
  const std::string root = find_root(of);
  if (root == name || !roots_.try_emplace(name, root).second) return;
  const auto own = readers_.find(name);
  if (own == readers_.end()) return;
  const std::int64_t count = own->second;
  readers_[root] += count;
}

void LiveResults::store(const std::string& name, Count bytes) {
  if (!readers_.contains(name) || !live_.try_emplace(name, bytes).second) return;
  bytes_ += bytes;
}

void LiveResults::release(const std::string& name) {
  const std::string& root = find_root(name);
  const auto readers = readers_.find(root);
  const auto live = live_.find(root);
  if (readers == readers_.end() || --readers->second > 0 || live == live_.end()) return;
  bytes_ -= live->second;
  live_.erase(live);
}

}  // namespace ridge::onnx
