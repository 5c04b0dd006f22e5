// One library in a process of its own, driven over a socket: prepare a product, run it so many times, check its result.
#pragma once

#include <sys/types.h>

#include <string>

#include "ridge/base/result.h"
#include "ridge/measure/contest.h"

namespace ridge::measure {

struct Answer {
  bool took_part = true;
  double seconds = 0;    // of one call (prepare), of all calls (run)
  double max_error = 0;  // check: largest |got - ref| / (|A||B|)
  char text[512] = {};   // describe; or what went wrong
};

class Contestant {
 public:
  // Forks. The caller must not have started threads.
  static Result<Contestant> start(const std::string& library, int threads);
  Contestant(Contestant&& other) noexcept;
  Contestant& operator=(Contestant&&) = delete;
  ~Contestant();

  const std::string& library() const { return library_; }
  Result<Answer> prepare(const ContestShape& shape);  // fills operands, binds, calls once, times a few calls
  Result<Answer> run(int calls);
  Result<Answer> check();
  Result<Answer> describe();

 private:
  struct Request;
  Contestant(std::string library, pid_t child, int socket)
      : library_(std::move(library)), child_(child), socket_(socket) {}
  Result<Answer> ask(const Request& request);
  static void serve(const std::string& library, int threads, int socket);

  std::string library_;
  pid_t child_ = -1;
  int socket_ = -1;
};

}  // namespace ridge::measure
