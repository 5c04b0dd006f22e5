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
#include <typeinfo>

#include "ridge/base/check.h"
#include "ridge/base/file.h"
#include "ridge/base/operand_type.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/describe.h"

namespace ridge::ops::cuda {
namespace {

constexpr std::string_view install_hint =
    "`pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or install the CUDA toolkit, and add the folder of both "
    "to PATH";
constexpr std::size_t max_output_bytes = std::size_t{512} << 20;

std::vector<std::string> split_string(std::string_view text, char separator) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t next = std::min(text.find(separator, at), text.size());
    all.emplace_back(text.substr(at, next - at));
    at = next + 1;
  }
  return all;
}

// An anonymous file that receives the output of a program. Unlike a full pipe, the file never blocks the program.
class OutputCapture {
 public:
  OutputCapture() : descriptor_(::memfd_create("ridge", MFD_CLOEXEC)) {}
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;
  ~OutputCapture() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  std::string read_text() const {
    auto read = read_file(fmt::format("/proc/self/fd/{}", descriptor_), max_output_bytes);
    return read ? *std::move(read) : std::string();
  }

 private:
  int descriptor_;
};

struct ProcessResult {
  int exit_code = 0;  // Exit code; 128 + the number of a signal
  std::string standard_output, error_output;
};

// Runs a program without a shell. `folder` becomes the first of PATH, because cuobjdump calls nvdisasm.
Result<ProcessResult> run_tool(const std::string& folder, const std::vector<std::string>& arguments) {
  const OutputCapture out, error_output;
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
  posix_spawn_file_actions_adddup2(&actions, error_output.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, arguments[0].c_str(), &actions, nullptr, pointers(arguments).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return absent_error(fmt::format("{} cannot be run: {}", arguments[0], std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return ProcessResult{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out.read_text(),
                       error_output.read_text()};
}

std::optional<std::string> find_folder(const std::vector<std::string>& folders, const char* program) {
  for (const std::string& folder : folders)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return folder;
  return std::nullopt;
}

// Returns cuobjdump's "fatal" line, or else the first line: cuobjdump also warns about parts without the function.
std::string find_fatal_line(const std::string& error_output) {
  for (const std::string& line : split_string(error_output, '\n'))
    if (line.find("fatal") != std::string::npos) return line;
  return error_output.substr(0, error_output.find('\n'));
}

// Calls `visit` with each section of the listing that begins with `start`.
template <class Visit> void for_each_section(std::string_view listing, std::string_view start, const Visit& visit) {
  for (std::size_t at = listing.find(start); at != std::string_view::npos;) {
    const std::size_t next = listing.find(start, at + start.size());
    visit(listing.substr(at, next - at));
    at = next;
  }
}

}  // namespace

std::string_view assembly_kind_name(AssemblyKind assembly_kind) {
  return assembly_kind == AssemblyKind::sass ? "SASS" : "PTX";
}

// Must match the mangled name of tile::sm90::run_product<MatmulKernel<config, in>>.
std::string kernel_symbol(int config, DType in) {
  std::string_view type;
  const bool has_kernels = OperandDTypes::dispatch(in, [&]<class T>() { type = typeid(T).name(); });
  RIDGE_CHECK(has_kernels, dtype_name(in));
  const bool is_class = type.starts_with("N5ridge");  // "N5ridge4Bf16E", whereas tf32 is "f"
  if (is_class) type.remove_prefix(7);
  return fmt::format(
      "_ZN5ridge4tile4sm9011run_productINS_3ops4cuda12MatmulKernelILi{}E{}{}EEEEvNT_7GlobalsENS1_11ProductArgsENS1_"
      "13PeerRowMapsOfIS{}_EE",
      config, is_class ? "NS_" : "", type, is_class ? 8 : 7);
}

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("PATH"))
    for (const std::string& folder : split_string(path, ':'))
      if (folder.starts_with('/')) folders.push_back(folder);
  if (const char* home = std::getenv("CUDA_HOME"); home && *home == '/') folders.push_back(std::string(home) + "/bin");
  folders.emplace_back("/usr/local/cuda/bin");
  return folders;
}

std::optional<std::string> extract_sass(std::string_view listing, std::string_view symbol) {
  std::optional<std::string> found;
  const std::string title = fmt::format("\t\tFunction : {}\n", symbol);
  for_each_section(listing, "\t\tFunction : ", [&](std::string_view part) {
    if (!part.starts_with(title)) return;
    part = part.substr(0, part.find("\nFatbin "));
    const std::size_t last = part.find_last_not_of(" \t\n.");
    found = std::string(part.substr(2, last - 1)) + "\n";
  });
  return found;
}

std::optional<std::string> extract_ptx(std::string_view listing, std::string_view symbol) {
  std::optional<std::string> found;
  const std::string entry = fmt::format(".visible .entry {}(", symbol);
  for_each_section(listing, "\n.version ", [&](std::string_view text) {
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

Result<std::string> extract_kernel_code(int config, DType in, AssemblyKind assembly_kind,
                                        const std::vector<std::string>& tools) {
  if (!device::query_driver().has_cuda_build) return device::check_device({}).error();
  if (!OperandDTypes::contains(in)) return dtype_error<OperandDTypes>("the code of a kernel", in);
  if (!kernel_config(config, in).can_multiply(in))
    return input_error(
        fmt::format("{} has no kernel of {}: expected a tile and an order of operands for which it has one",
                    config_name(config), dtype_name(in)),
        "`ridge explain PROGRAM --on h200 --plan` names kernels of a program's dtype");
  const auto folder = find_folder(tools, "cuobjdump");
  if (!folder)
    return absent_error(fmt::format("expected cuobjdump, which lists {}, in PATH, in $CUDA_HOME/bin or in "
                                    "/usr/local/cuda/bin, found none",
                                    assembly_kind_name(assembly_kind)),
                        std::string(install_hint));
  const std::string symbol = kernel_symbol(config, in);
  RIDGE_TRY(result, run_tool(*folder, {*folder + "/cuobjdump", assembly_kind == AssemblyKind::sass ? "-sass" : "-ptx",
                                       "-fun", symbol, fmt::format("/proc/{}/exe", ::getpid())}));
  if (result.exit_code != 0)
    return absent_error(fmt::format("{}/cuobjdump ended with exit code {}: {}", *folder, result.exit_code,
                                    find_fatal_line(result.error_output)),
                        std::string(install_hint));
  auto code = assembly_kind == AssemblyKind::sass ? extract_sass(result.standard_output, symbol)
                                                  : extract_ptx(result.standard_output, symbol);
  if (code) return *std::move(code);
  return absent_error(
      fmt::format("{}/cuobjdump finds no {} of {} in this binary", *folder, assembly_kind_name(assembly_kind), symbol),
      "use the cuobjdump of the toolkit that built ridge, or a later one");
}

}  // namespace ridge::ops::cuda
