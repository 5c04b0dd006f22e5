#include "ridge/device/kernel_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "ridge/base/file.h"

namespace ridge::device {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "ridge.kernel/1\n";
constexpr std::size_t max_entry_bytes = std::size_t{64} << 20;
constexpr auto abandoned_after = std::chrono::hours(1);  // The writer of an older unfinished file is assumed dead.

// FNV-1a, for file names and checksums. It guards only against accidents; `find` compares the full key.
std::uint64_t fnv1a_hash(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325u) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

struct EntryHeader {
  std::uint64_t key_bytes = 0, content_bytes = 0, checksum = 0;
};
std::uint64_t entry_checksum(std::string_view key, std::string_view content) {
  return fnv1a_hash(content, fnv1a_hash(key));
}

struct StoredFile {
  fs::file_time_type last_used;
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
void evict_entries(const std::string& folder, std::uint64_t max_bytes) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  std::vector<StoredFile> entries;
  std::uint64_t bytes = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code entry_error;
    const auto last_used = fs::last_write_time(at->path(), entry_error);
    if (entry_error) continue;
    if (at->path().extension() == ".unfinished" && now - last_used > abandoned_after)
      fs::remove(at->path(), entry_error);
    if (!is_entry(at->path())) continue;
    const std::uint64_t size = fs::file_size(at->path(), entry_error);
    if (entry_error) continue;
    entries.push_back({last_used, size, at->path()});
    bytes += size;
  }
  if (bytes <= max_bytes) return;
  std::sort(entries.begin(), entries.end(),
            [](const StoredFile& a, const StoredFile& b) { return a.last_used < b.last_used; });
  for (const StoredFile& oldest : entries) {
    if (bytes <= max_bytes) return;
    std::error_code entry_error;
    fs::remove(oldest.path, entry_error);
    bytes -= oldest.bytes;
  }
}

}  // namespace

std::uint64_t text_fingerprint(std::string_view text) { return fnv1a_hash(text); }

KernelStore KernelStore::for_user(std::string_view name) {
  const auto folder = find_user_folder("XDG_CACHE_HOME", ".cache");
  return KernelStore(folder ? fmt::format("{}/ridge/{}", *folder, name) : "");
}

bool KernelStore::has_file(std::string_view key) const {
  std::error_code error;
  return !folder_.empty() && fs::exists(entry_path(key), error);
}

std::string KernelStore::entry_path(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}", folder_, fnv1a_hash(key), fnv1a_hash(key, key.size()));
}

std::optional<std::string> KernelStore::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  Result<std::string> file = read_file(entry_path(key), max_entry_bytes);
  if (!file || !file->starts_with(magic)) return std::nullopt;
  EntryHeader header;
  if (file->size() < magic.size() + sizeof header) return std::nullopt;
  std::memcpy(&header, file->data() + magic.size(), sizeof header);
  const std::string_view rest = std::string_view(*file).substr(magic.size() + sizeof header);
  if (header.key_bytes != key.size() || rest.size() < key.size() || header.content_bytes != rest.size() - key.size() ||
      !rest.starts_with(key))
    return std::nullopt;
  const std::string_view content = rest.substr(key.size());
  if (header.checksum != entry_checksum(key, content)) return std::nullopt;
  std::error_code touch_error;  // In a read-only folder the order of use is not updated.
  fs::last_write_time(entry_path(key), fs::file_time_type::clock::now(), touch_error);
  return std::string(content);
}

bool KernelStore::save(std::string_view key, std::string_view content) const {
  const EntryHeader header{key.size(), content.size(), entry_checksum(key, content)};
  const std::uint64_t bytes = magic.size() + sizeof header + key.size() + content.size();
  if (folder_.empty() || bytes > max_bytes_) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  evict_entries(folder_, max_bytes_ - bytes);
  const std::array<std::string_view, 4> sections{
      magic, std::string_view(reinterpret_cast<const char*>(&header), sizeof header), key, content};
  return write_file(entry_path(key), sections).ok();
}

}  // namespace ridge::device
