// Compiled kernels on disk, so that a text is compiled once a user and not once a process, and likewise choices that
// were measured (tuned_choices.h): one file an entry, whose name is a hash of the key. It holds the whole key and a
// checksum of itself, and what does not match (another key of the same hash, another version, a cut or a flipped byte)
// counts as absent and is written anew. Files appear whole (base/file.h). A folder that cannot be written, or a full
// disk, means that nothing is kept and nothing else. The folder holds 256 MiB at most, several thousand kernels: what
// was used longest ago makes room for what is new.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::ops {

class KernelStore {
 public:
  static constexpr std::uint64_t usual_bytes = std::uint64_t{256} << 20;

  // "" keeps nothing. `most_bytes`: of all entries; processes that write at once may pass it by what they write.
  explicit KernelStore(std::string folder, std::uint64_t most_bytes = usual_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}
  // $XDG_CACHE_HOME/ridge/kernels, or ~/.cache/ridge/kernels; or beside it.
  static KernelStore of_user(std::string_view name = "kernels");

  std::optional<std::string> find(std::string_view key) const;
  bool keep(std::string_view key, std::string_view content) const;  // whether it did
  std::string path(std::string_view key) const;
  bool holds_file(std::string_view key) const;  // a file lies there, which find() may not take
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::uint64_t most_bytes_;
};

// What tells texts apart, against chance alone.
std::uint64_t fingerprint(std::string_view text);

}  // namespace ridge::ops
