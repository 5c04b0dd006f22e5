// Runs one library in its own process, which receives commands over a socket: prepare a product, run it, check it.
#pragma once

#include <sys/types.h>

#include <string>

#include "ridge/base/result.h"
#include "ridge/measure/contest/contest.h"

namespace ridge {

struct Answer {
  bool took_part = true;  // false if the library cannot compute this product
  double seconds = 0;     // seconds of one call (prepare), or of all calls (run)
  double max_error = 0;   // result of check: largest |got - ref| / (|A||B|)
  char text[512] = {};    // result of describe
  // If `failed`: kind, message and hint of the error.
  bool failed = false;
  ErrorKind kind = ErrorKind::input;
  char message[384] = {}, hint[128] = {};
};

class Contestant {
 public:
  // Forks the process. The caller must not have started threads.
  static Result<Contestant> start(const std::string& library, int threads);
  Contestant(Contestant&& other) noexcept;
  Contestant& operator=(Contestant&&) = delete;
  ~Contestant();

  const std::string& library() const { return library_; }
  pid_t process() const { return child_; }
  // Fills the operands, binds them, calls once and times one call. Errors of all four functions: the library is not
  // installed, the system refuses memory, the process ended.
  Result<Answer> prepare(const ContestShape& shape);
  Result<Answer> run(int calls);
  Result<Answer> check();
  Result<Answer> describe();

 private:
  struct Request;
  Contestant(std::string library, pid_t child, int socket)
      : library_(std::move(library)), child_(child), socket_(socket) {}
  Result<Answer> ask(const Request& request);
  Error ended(const Request& request);
  static void serve(const std::string& library, int threads, int socket);

  std::string library_;
  pid_t child_ = -1;
  int socket_ = -1;
  std::string product_ = {};  // for error messages
};

}  // namespace ridge
