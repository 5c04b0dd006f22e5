#include "ridge/ops/product/machine_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ridge/base/file.h"
#include "ridge/device/device.h"

namespace ridge::ops::cuda {
namespace {

constexpr std::string_view cure =
    "`pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or install the CUDA toolkit, and add the folder of both "
    "to PATH";
constexpr std::size_t most_bytes = std::size_t{512} << 20;

std::vector<std::string> pieces(std::string_view text, char between) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t next = std::min(text.find(between, at), text.size());
    all.emplace_back(text.substr(at, next - at));
    at = next + 1;
  }
  return all;
}

// An anonymous file that receives the output of a program. Unlike a pipe it cannot block the program.
class Capture {
 public:
  Capture() : descriptor_(::memfd_create("ridge", MFD_CLOEXEC)) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  std::string text() const {
    auto read = read_file(fmt::format("/proc/self/fd/{}", descriptor_), most_bytes);
    return read ? *std::move(read) : std::string();
  }

 private:
  int descriptor_;
};

struct Ended {
  int code = 0;  // Exit code; 128 + the number of a signal
  std::string out, complaint;
};

// Runs a program without a shell. `folder` becomes the first of PATH, because cuobjdump calls nvdisasm.
Result<Ended> call(const std::string& folder, const std::vector<std::string>& arguments) {
  const Capture out, complaint;
  std::vector<std::string> environment{"PATH=" + folder + ":" + (std::getenv("PATH") ? std::getenv("PATH") : "")};
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("PATH=")) environment.emplace_back(*variable);
  const auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, complaint.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return absent_error(fmt::format("{} cannot be run: {}", arguments[0], std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return Ended{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out.text(), complaint.text()};
}

std::optional<std::string> holding(const std::vector<std::string>& folders, const char* program) {
  for (const std::string& folder : folders)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return folder;
  return std::nullopt;
}

// cuobjdump warns about every part of the binary without the function. Returns its "fatal" line or the first line.
std::string reason(const std::string& complaint) {
  for (const std::string& line : pieces(complaint, '\n'))
    if (line.find("fatal") != std::string::npos) return line;
  return complaint.substr(0, complaint.find('\n'));
}

// Calls `part` with each section of the listing that begins with `start`.
template <class Part> void for_parts(std::string_view listing, std::string_view start, const Part& part) {
  for (std::size_t at = listing.find(start); at != std::string_view::npos;) {
    const std::size_t next = listing.find(start, at + start.size());
    part(listing.substr(at, next - at));
    at = next;
  }
}

}  // namespace

std::string_view name(CodeText what) { return what == CodeText::sass ? "SASS" : "PTX"; }

// Must match the mangled name of tile::sm90::run<MatmulKernel<config, in>>.
std::string kernel_symbol(int config, DType in) {
  const char* const type = in == DType::bf16 ? "4Bf16" : "3F16";
  return fmt::format(
      "_ZN5ridge4tile4sm903runINS_3ops4cuda12MatmulKernelILi{}ENS_{}EEEEEvNT_7GlobalsENS1_7ProblemENS1_6RowsOfIS8_EE",
      config, type);
}

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : pieces(path, ':'))
      if (folder.starts_with('/')) folders.push_back(folder);
  if (const char* home = std::getenv("CUDA_HOME"); home && *home == '/') folders.push_back(std::string(home) + "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  return folders;
}

std::optional<std::string> sass_of(std::string_view listing, std::string_view symbol) {
  std::optional<std::string> found;
  const std::string title = fmt::format("\t\tFunction : {}\n", symbol);
  for_parts(listing, "\t\tFunction : ", [&](std::string_view part) {
    if (!part.starts_with(title)) return;
    part = part.substr(0, part.find("\nFatbin "));
    const std::size_t last = part.find_last_not_of(" \t\n.");
    found = std::string(part.substr(2, last - 1)) + "\n";
  });
  return found;
}

std::optional<std::string> ptx_of(std::string_view listing, std::string_view symbol) {
  std::optional<std::string> found;
  const std::string entry = fmt::format(".visible .entry {}(", symbol);
  for_parts(listing, "\n.version ", [&](std::string_view text) {
    text = text.substr(1, text.find("\nFatbin ", 1));
    if (text.find(entry) == std::string_view::npos) return;
    std::string entry_text;
    while (!text.empty()) {  // The header, then one entry per iteration
      const std::size_t next = std::min(text.find("\n.visible .entry ", 1), text.size());
      if (!text.starts_with("\n.visible .entry ") || text.substr(1).starts_with(entry))
        entry_text += text.substr(0, next);
      text.remove_prefix(next);
    }
    found = entry_text.substr(0, entry_text.find_last_of('}') + 1) + "\n";
  });
  return found;
}

Result<std::string> code_text(int config, DType in, CodeText what, const std::vector<std::string>& tools) {
  if (!ask_device().built) return *refusal({});
  const auto folder = holding(tools, "cuobjdump");
  if (!folder)
    return absent_error(fmt::format("expected cuobjdump, which lists {}, in PATH, in $CUDA_HOME/bin or in "
                                    "/usr/local/cuda/bin, found none",
                                    name(what)),
                        std::string(cure));
  const std::string symbol = kernel_symbol(config, in);
  const auto ended = call(*folder, {*folder + "/cuobjdump", what == CodeText::sass ? "-sass" : "-ptx", "-fun", symbol,
                                    fmt::format("/proc/{}/exe", ::getpid())});
  if (!ended) return ended.error();
  if (ended->code != 0)
    return absent_error(
        fmt::format("{}/cuobjdump ended with exit code {}: {}", *folder, ended->code, reason(ended->complaint)),
        std::string(cure));
  auto text = what == CodeText::sass ? sass_of(ended->out, symbol) : ptx_of(ended->out, symbol);
  if (text) return *std::move(text);
  return absent_error(fmt::format("{}/cuobjdump finds no {} of {} in this binary", *folder, name(what), symbol),
                      "use the cuobjdump of the toolkit that built ridge, or a later one");
}

}  // namespace ridge::ops::cuda
