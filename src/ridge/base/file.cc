#include "ridge/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "ridge/base/reason.h"

namespace ridge {
namespace {

// Name of the temporary file while it is written; global, so that a signal handler can unlink it.
char temporary_path[PATH_MAX + 32];
std::atomic<bool> is_temporary_present{false};

std::string errno_message(int error) { return std::strerror(error); }

Error file_error(std::string_view verb, const std::string& path, const std::string& why) {
  return input_error(fmt::format("cannot {} '{}': {}", verb, path, why));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd);
  }

 private:
  int fd_;
};

Reason write_pieces(int fd, std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces)
    if (auto failure = write_all(fd, piece)) return failure->reason;
  return {};
}

Reason write_and_rename(const std::string& path, std::span<const std::string_view> pieces) {
  const std::string temporary = fmt::format("{}.{}.unfinished", path, ::getpid());
  if (temporary.size() >= sizeof temporary_path) return errno_message(ENAMETOOLONG);
  // Set before the file is created: a signal in between unlinks nothing, a later one unlinks the file.
  std::memcpy(temporary_path, temporary.c_str(), temporary.size() + 1);
  is_temporary_present = true;
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    const int error = errno;
    is_temporary_present = false;
    return errno_message(error);
  }
  auto failure = write_pieces(file.get(), pieces);
  if (!failure && ::fsync(file.get()) != 0) failure = errno_message(errno);
  if (file.close() != 0 && !failure) failure = errno_message(errno);
  if (!failure && ::rename(temporary.c_str(), path.c_str()) != 0) failure = errno_message(errno);
  if (failure) ::unlink(temporary.c_str());
  is_temporary_present = false;
  return failure;
}

}  // namespace

std::optional<WriteFailure> write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(descriptor, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WriteFailure{errno_message(errno), errno == EPIPE};
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return std::nullopt;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return file_error("read", path, errno_message(errno));
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("read", path, errno_message(errno));
    if (n == 0) return content;
    content.append(block, static_cast<std::size_t>(n));
    if (content.size() > limit) return file_error("read", path, fmt::format("it holds more than {} bytes", limit));
  }
}

Status write_file(const std::string& path, std::span<const std::string_view> pieces) {
  // A symbolic link stays a link: its target is replaced.
  std::string target = path;
  if (char* real = ::realpath(path.c_str(), nullptr)) {
    target = real;
    std::free(real);
  }
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return file_error("write", path, errno_message(EISDIR));
  Reason failure;
  if (exists && !S_ISREG(status.st_mode)) {
    Descriptor file(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    failure = file.get() < 0 ? errno_message(errno) : write_pieces(file.get(), pieces);
  } else {
    failure = write_and_rename(target, pieces);
  }
  if (failure) return file_error("write", path, failure.text());
  return Done{};
}

Status write_file(const std::string& path, std::string_view content) {
  return write_file(path, std::span<const std::string_view>(&content, 1));
}

std::optional<std::string> find_user_folder(const char* variable, std::string_view home_subfolder) {
  const char* named = std::getenv(variable);
  if (named != nullptr && named[0] == '/') return std::string(named);  // XDG: ignore relative paths
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return std::nullopt;
  return fmt::format("{}/{}", home, home_subfolder);
}

void remove_unfinished_file() noexcept {
  if (is_temporary_present.load()) ::unlink(temporary_path);
}

}  // namespace ridge
