// Bytes of the results that are still read, while operators run in order. A view shares the memory of its input.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "ridge/roofline/results.h"

namespace ridge::onnx {

class LiveResults {
 public:
  // Counts one more operator that will read the tensor. Call it for all operators before the first result is stored.
  void add_reader(const std::string& name) { ++readers_[find_root(name)]; }
  // Makes `name` a view of `of`: its readers keep the memory of `of`.
  void add_alias(const std::string& name, const std::string& of);
  // Adds a result that has readers; it is live until all of them have released it.
  void store(const std::string& name, Count bytes);
  // Ends one read of the tensor.
  void release(const std::string& name);
  Count bytes() const { return bytes_; }

 private:
  // Returns the tensor whose memory this one is in.
  const std::string& find_root(const std::string& name) const {
    const auto found = roots_.find(name);
    return found == roots_.end() ? name : found->second;
  }

  std::unordered_map<std::string, std::string> roots_;
  std::unordered_map<std::string, std::int64_t> readers_;
  std::unordered_map<std::string, Count> live_;
  Count bytes_ = 0;
};

}  // namespace ridge::onnx
