// Reads and writes complete files. A file is replaced atomically: it is written under a temporary name in the same
// folder, flushed to disk (fsync) and renamed, so that a full disk or Ctrl-C leaves no partial file. Devices and pipes
// are written directly. Errors contain the path and the system's message.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge {

// Returns the content, or an error if the file exceeds `limit` bytes.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{64} << 20);

// Writes the concatenated pieces; a large array need not be joined to its header first.
Status write_file(const std::string& path, std::span<const std::string_view> pieces);
Status write_file(const std::string& path, std::string_view content);

// Reason of a failed write: the system's message; `is_closed_pipe` if the reader has closed the pipe.
struct WriteFailure {
  std::string reason;
  bool is_closed_pipe = false;
};
// Writes everything to an open descriptor; returns nullopt on success.
std::optional<WriteFailure> write_all(int descriptor, std::string_view content);

// Returns the user's folder by the XDG rules: the value of `variable`, else $HOME/`home_subfolder`; nullopt if neither
// is an absolute path.
std::optional<std::string> find_user_folder(const char* variable, std::string_view home_subfolder);

// Unlinks the partly written file, if any. Async-signal-safe, for signal handlers.
void remove_unfinished_file() noexcept;

}  // namespace ridge
