// Files, read whole and written whole. A result file appears complete or not at all: it is written under another name
// beside its place, flushed to the disk (fsync) and then renamed, so that a full disk or a Ctrl-C leaves nothing
// behind. What is no regular file (/dev/full, a pipe) is written straight. Messages hold the path and the system's own
// words.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridge/base/result.h"

namespace ridge {

// At most `limit` bytes; of a larger file the error says the limit.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{64} << 20);

// The content in pieces, so that a large array need not be joined to its header first.
Status write_file(const std::string& path, std::span<const std::string_view> pieces);
Status write_file(const std::string& path, std::string_view content);

// To an open descriptor, all of it. The error's text is the system's; `closed` tells a closed pipe from a full disk.
struct WriteFailure {
  std::string reason;
  bool closed = false;
};
std::optional<WriteFailure> write_all(int descriptor, std::string_view content);

// Where a user's files lie, by the XDG rules: the folder that `variable` names, else `beneath` in HOME; nothing where
// neither is an absolute path.
std::optional<std::string> user_folder(const char* variable, std::string_view beneath);

// For a signal handler: unlinks the half-written file, if there is one. Async-signal-safe.
void remove_unfinished_file() noexcept;

}  // namespace ridge
