#include "ridge/device/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "ridge/base/file.h"

namespace ridge::ops {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "ridge.kernel/1\n";
constexpr std::size_t most_bytes = std::size_t{64} << 20;
constexpr auto forgotten = std::chrono::hours(1);  // The writer of an older unfinished file is assumed dead.

// FNV-1a, for file names and checksums. It guards only against accidents; `find` compares the full key.
std::uint64_t hash(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325u) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

struct Header {
  std::uint64_t key_bytes = 0, content_bytes = 0, checksum = 0;
};
std::uint64_t checksum(std::string_view key, std::string_view content) { return hash(content, hash(key)); }

struct Entry {
  fs::file_time_type used;
  std::uint64_t bytes = 0;
  fs::path path;
};

// True if the file is an entry; other files of the folder are never removed.
bool is_entry(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Removes unfinished files of dead writers, then the least recently used entries until the rest takes at most
// `max_bytes`. Another process may remove the same files concurrently, so failures are ignored.
void tidy(const std::string& folder, std::uint64_t most) {
  std::error_code trouble;
  const auto now = fs::file_time_type::clock::now();
  std::vector<Entry> entries;
  std::uint64_t bytes = 0;
  for (fs::directory_iterator at(folder, trouble), end; !trouble && at != end; at.increment(trouble)) {
    std::error_code gone;
    const auto used = fs::last_write_time(at->path(), gone);
    if (gone) continue;
    if (at->path().extension() == ".unfinished" && now - used > forgotten) fs::remove(at->path(), gone);
    if (!is_entry(at->path())) continue;
    const std::uint64_t size = fs::file_size(at->path(), gone);
    if (gone) continue;
    entries.push_back({used, size, at->path()});
    bytes += size;
  }
  if (bytes <= most) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& oldest : entries) {
    if (bytes <= most) return;
    std::error_code gone;
    fs::remove(oldest.path, gone);
    bytes -= oldest.bytes;
  }
}

}  // namespace

std::uint64_t fingerprint(std::string_view text) { return hash(text); }

KernelStore KernelStore::of_user(std::string_view name) {
  const auto folder = user_folder("XDG_CACHE_HOME", ".cache");
  return KernelStore(folder ? fmt::format("{}/ridge/{}", *folder, name) : "");
}

bool KernelStore::holds_file(std::string_view key) const {
  std::error_code trouble;
  return !folder_.empty() && fs::exists(path(key), trouble);
}

std::string KernelStore::path(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}", folder_, hash(key), hash(key, key.size()));
}

std::optional<std::string> KernelStore::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  Result<std::string> file = read_file(path(key), most_bytes);
  if (!file || !file->starts_with(magic)) return std::nullopt;
  Header header;
  if (file->size() < magic.size() + sizeof header) return std::nullopt;
  std::memcpy(&header, file->data() + magic.size(), sizeof header);
  const std::string_view rest = std::string_view(*file).substr(magic.size() + sizeof header);
  if (header.key_bytes != key.size() || rest.size() < key.size() || header.content_bytes != rest.size() - key.size() ||
      !rest.starts_with(key))
    return std::nullopt;
  const std::string_view content = rest.substr(key.size());
  if (header.checksum != checksum(key, content)) return std::nullopt;
  std::error_code untouched;  // In a read-only folder the order of use is not updated.
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), untouched);
  return std::string(content);
}

bool KernelStore::keep(std::string_view key, std::string_view content) const {
  const Header header{key.size(), content.size(), checksum(key, content)};
  const std::uint64_t bytes = magic.size() + sizeof header + key.size() + content.size();
  if (folder_.empty() || bytes > most_bytes_) return false;
  std::error_code trouble;
  fs::create_directories(folder_, trouble);
  tidy(folder_, most_bytes_ - bytes);
  const std::array<std::string_view, 4> pieces{
      magic, std::string_view(reinterpret_cast<const char*>(&header), sizeof header), key, content};
  return write_file(path(key), pieces).ok();
}

}  // namespace ridge::ops
