// Runs one library in its own process, which receives commands over a socket: prepare a product, run it, check it.
#pragma once

#include <sys/types.h>

#include <string>

#include "ridge/base/result.h"
#include "ridge/bench/benchmark_shape.h"

namespace ridge {

struct LibraryReply {
  bool supported = true;       // false if the library cannot compute this product
  double seconds = 0;          // seconds of one call (prepare), or of all calls (run)
  double max_error = 0;        // result of check: largest |got - ref| / (|A||B|)
  char description[512] = {};  // result of describe
  // If `failed`: kind, message and hint of the error.
  bool failed = false;
  ErrorKind kind = ErrorKind::input;
  char message[384] = {}, hint[128] = {};
};

class LibraryProcess {
 public:
  // Forks the process. The caller must not have started threads.
  static Result<LibraryProcess> start(const std::string& library, int threads);
  LibraryProcess(LibraryProcess&& other) noexcept;
  LibraryProcess& operator=(LibraryProcess&&) = delete;
  ~LibraryProcess();

  const std::string& library_name() const { return library_; }
  pid_t process_id() const { return child_; }
  // Fills the operands, binds them, calls once and times one call. Errors of all four functions: the library is not
  // installed, the system refuses memory, the process ended.
  Result<LibraryReply> prepare_product(const BenchmarkShape& shape);
  Result<LibraryReply> run_calls(int calls);
  Result<LibraryReply> check_result();
  Result<LibraryReply> describe();

 private:
  struct Command;
  LibraryProcess(std::string library, pid_t child, int socket)
      : library_(std::move(library)), child_(child), socket_(socket) {}
  Result<LibraryReply> send_command(const Command& command);
  Error exit_error(const Command& command);
  static void serve_commands(const std::string& library, int threads, int socket);

  std::string library_;
  pid_t child_ = -1;
  int socket_ = -1;
  std::string current_product_ = {};  // for error messages
};

}  // namespace ridge
