// Compiled kernels on disk, so that a text is compiled once a user and not once a process: one file an entry, whose
// name is a hash of the key. It holds the whole key and a checksum of itself, and what does not match (another key of
// the same hash, another version, a cut or a flipped byte) counts as absent and is written anew. Files appear whole
// (base/file.h). A folder that cannot be written, or a full disk, means that nothing is kept and nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge::kernels {

class KernelStore {
 public:
  explicit KernelStore(std::string folder) : folder_(std::move(folder)) {}  // "": keeps nothing
  static KernelStore of_user();  // $XDG_CACHE_HOME/ridge/kernels, or ~/.cache/ridge/kernels

  std::optional<std::string> find(std::string_view key) const;
  bool keep(std::string_view key, std::string_view content) const;  // whether it did
  std::string path(std::string_view key) const;
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace ridge::kernels
