// Disk cache of compiled kernels, shared by a user's processes; a second one holds measured choices (tuned_choices.h).
// Each entry is a file named by a hash of its key, with the full key and a checksum. A file that does not match (hash
// collision, other version, truncated or corrupt) counts as absent and is rewritten. Files are written atomically
// (base/file.h). If the folder is read-only or the disk is full, entries are not saved and no error is reported. The
// folder holds at most 256 MiB, several thousand kernels; the least recently used entries are removed first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::device {

class KernelStore {
 public:
  static constexpr std::uint64_t default_bytes = std::uint64_t{256} << 20;

  // An empty folder disables the store. `max_bytes` limits all entries; concurrent writers may exceed it by their own.
  explicit KernelStore(std::string folder, std::uint64_t max_bytes = default_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  // Uses $XDG_CACHE_HOME/ridge/NAME, or ~/.cache/ridge/NAME.
  static KernelStore for_user(std::string_view name = "kernels");

  std::optional<std::string> find(std::string_view key) const;
  bool save(std::string_view key, std::string_view content) const;  // True if the entry was written.
  std::string entry_path(std::string_view key) const;
  bool has_file(std::string_view key) const;  // True if the file exists, even if `find` rejects it.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::uint64_t max_bytes_;
};

// Returns a 64-bit hash (FNV-1a); not safe against deliberate collisions.
std::uint64_t text_fingerprint(std::string_view text);

}  // namespace ridge::device
