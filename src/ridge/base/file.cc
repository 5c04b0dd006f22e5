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

namespace ridge {
namespace {

// The name under which a file is being written, where a signal handler finds it.
char unfinished[PATH_MAX + 32];
std::atomic<bool> writing{false};

std::string reason(int error) { return std::strerror(error); }

Error cannot(std::string_view verb, const std::string& path, const std::string& why) {
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

std::optional<std::string> write_pieces(int fd, std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces)
    if (auto failure = write_all(fd, piece)) return failure->reason;
  return std::nullopt;
}

std::optional<std::string> write_beside(const std::string& path, std::span<const std::string_view> pieces) {
  const std::string temporary = fmt::format("{}.{}.unfinished", path, ::getpid());
  if (temporary.size() >= sizeof unfinished) return reason(ENAMETOOLONG);
  // Marked before it is there: a signal in between has nothing to unlink, one later has its name.
  std::memcpy(unfinished, temporary.c_str(), temporary.size() + 1);
  writing = true;
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) {
    const int error = errno;
    writing = false;
    return reason(error);
  }
  auto failure = write_pieces(file.get(), pieces);
  if (!failure && ::fsync(file.get()) != 0) failure = reason(errno);
  if (file.close() != 0 && !failure) failure = reason(errno);
  if (!failure && ::rename(temporary.c_str(), path.c_str()) != 0) failure = reason(errno);
  if (failure) ::unlink(temporary.c_str());
  writing = false;
  return failure;
}

}  // namespace

std::optional<WriteFailure> write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(descriptor, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WriteFailure{reason(errno), errno == EPIPE};
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return std::nullopt;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return cannot("read", path, reason(errno));
  std::string content;
  char block[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cannot("read", path, reason(errno));
    if (n == 0) return content;
    content.append(block, static_cast<std::size_t>(n));
    if (content.size() > limit) return cannot("read", path, fmt::format("it holds more than {} bytes", limit));
  }
}

Status write_file(const std::string& path, std::span<const std::string_view> pieces) {
  // A link keeps being a link: what it points to is replaced.
  std::string place = path;
  if (char* real = ::realpath(path.c_str(), nullptr)) {
    place = real;
    std::free(real);
  }
  struct stat about {};
  const bool exists = ::stat(place.c_str(), &about) == 0;
  if (exists && S_ISDIR(about.st_mode)) return cannot("write", path, reason(EISDIR));
  std::optional<std::string> failure;
  if (exists && !S_ISREG(about.st_mode)) {
    Descriptor file(::open(place.c_str(), O_WRONLY | O_CLOEXEC));
    failure = file.get() < 0 ? reason(errno) : write_pieces(file.get(), pieces);
  } else {
    failure = write_beside(place, pieces);
  }
  if (failure) return cannot("write", path, *failure);
  return Done{};
}

Status write_file(const std::string& path, std::string_view content) {
  return write_file(path, std::span<const std::string_view>(&content, 1));
}

std::optional<std::string> user_folder(const char* variable, std::string_view beneath) {
  const char* named = std::getenv(variable);
  if (named != nullptr && named[0] == '/') return std::string(named);  // a relative one is to be ignored
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return std::nullopt;
  return fmt::format("{}/{}", home, beneath);
}

void remove_unfinished_file() noexcept {
  if (writing.load()) ::unlink(unfinished);
}

}  // namespace ridge
