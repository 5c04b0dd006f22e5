#include "ridge/bench/library_process.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "ridge/base/cores.h"
#include "ridge/base/product_size.h"
#include "ridge/base/string_util.h"
#include "ridge/base/timer.h"
#include "ridge/bench/matmul_library.h"
#include "ridge/run/memory.h"

namespace ridge {

struct LibraryProcess::Command {
  enum class Action { prepare, run, check, describe } action;
  char op[8] = {};
  DType dtype = DType::f32, out = DType::f32;
  std::optional<DType> weights = {};
  ProductSize size = {};
  int calls = 0;
};

namespace {

constexpr std::uint64_t seed = 1;
constexpr int checked_elements = 200;

// Spreads this process's threads over the cores, then lets them migrate again. Linux may wake a library's thread on the
// core of its waker although another core is idle. If the waker spins, as libgomp's does, each call takes two scheduler
// ticks (8 ms) until the threads are separated by chance, which would misrepresent the library.
void spread_threads() {
  const std::vector<int> cpus = allowed_cpus();
  cpu_set_t all;
  if (cpus.size() < 2 || sched_getaffinity(0, sizeof all, &all) != 0) return;
  std::error_code ended;
  std::size_t i = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ended)) {
    const pid_t thread = std::atoi(task.path().filename().c_str());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[i++ % cpus.size()], &one);
    if (sched_setaffinity(thread, sizeof one, &one) == 0) sched_setaffinity(thread, sizeof all, &all);
  }
}

template <std::size_t size> void copy_text(char (&to)[size], std::string_view text) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.data(), length, to);
  to[length] = '\0';
}

// The current product: operands, result and bound call.
class MatmulTrial {
 public:
  static Result<std::unique_ptr<MatmulTrial>> make(const BenchmarkShape& shape, int threads) {
    auto trial = std::make_unique<MatmulTrial>();
    const ops::MatmulProblem& p = trial->p_ = shape.problem();
    const struct {
      DType dtype;
      std::int64_t elements;
      std::optional<ArrayStorage>& storage;
    } matrices[] = {{p.a.dtype, p.size.m * p.size.k, trial->a_},
                    {p.b.dtype, p.size.k * p.size.n, trial->b_},
                    {p.d.dtype, p.size.m * p.size.n, trial->d_}};
    for (const auto& [dtype, elements, storage] : matrices) {
      storage = ArrayStorage::make(dtype, elements);
      if (!storage) {
        const double bytes = static_cast<double>(elements) * dtype_bits(dtype) / 8;
        return input_error(fmt::format("the system refused {} of memory", format_with_prefix(bytes, "B")),
                           "leave the largest shapes out");
      }
    }
    fill_normal(trial->a_->array(), seed, 0, threads);
    fill_normal(trial->b_->array(), seed, 1, threads);
    poison_array(trial->d_->array(), threads);  // NaN marks elements that were never written
    return trial;
  }

  bool bind_library(MatmulLibrary& library) {
    call_ = library.bind(p_, a_->array().data, b_->array().data, d_->array().data);
    return static_cast<bool>(call_);
  }
  // Calls before the timing restore clock, caches and threads after the other libraries' turns; a thread that slept may
  // need a millisecond to reach full speed.
  double time_calls(int calls, int threads) const {
    constexpr double warmup_seconds = 2e-3;
    if (threads > 1) {
      call_();
      spread_threads();
    }
    for (const Timer since; since.seconds() < warmup_seconds;) call_();
    const Timer timer(threads == 1 ? TimerClock::thread : TimerClock::wall);
    for (int i = 0; i < calls; ++i) call_();
    return timer.seconds();
  }

  // Estimates the seconds of one call. If the first call is short, more are averaged: threads that wake up and memory
  // that is touched for the first time would make the estimate too high and the timed runs too short.
  double estimate_call_seconds(int threads) const {
    constexpr double short_call_seconds = 5e-3;
    constexpr int calls = 16;
    const double first = time_calls(1, threads);
    return first > short_call_seconds ? first : std::min(first, time_calls(calls, threads) / calls);
  }

  double measure_max_error() const {
    std::mt19937_64 engine(7);
    double worst = 0;
    for (int s = 0; s < checked_elements; ++s) {
      const auto i = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p_.size.m));
      const auto j = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p_.size.n));
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < p_.size.k; ++k) {
        const double t = ridge::read_element(a_->array(), i * p_.a.row_stride + k * p_.a.col_stride) *
                         ridge::read_element(b_->array(), k * p_.b.row_stride + j * p_.b.col_stride);
        sum += t;
        size += std::abs(t);
      }
      const double got = ridge::read_element(d_->array(), i * p_.d.row_stride + j * p_.d.col_stride);
      const double error = std::abs(got - sum) / std::max(size, 1e-300);
      worst = std::isfinite(got) ? std::max(worst, error) : INFINITY;
    }
    return worst;
  }

 private:
  ops::MatmulProblem p_;
  std::optional<ArrayStorage> a_, b_, d_;
  std::function<void()> call_;
};

void set_failure(LibraryReply& reply, const Error& error) {
  reply.failed = true;
  reply.supported = false;
  reply.kind = error.kind;
  copy_text(reply.message, error.message);
  copy_text(reply.hint, error.hint);
}

}  // namespace

void LibraryProcess::serve_commands(const std::string& name, int threads, int socket) {
  auto library = load_matmul_library(name, threads);
  std::unique_ptr<MatmulTrial> trial;
  Command command{};
  while (::read(socket, &command, sizeof command) == static_cast<ssize_t>(sizeof command)) {
    LibraryReply reply;
    if (!library) {
      set_failure(reply, library.error());
    } else if (command.action == Command::Action::describe) {
      copy_text(reply.description, (*library)->describe());
    } else if (command.action == Command::Action::prepare) {
      trial.reset();  // frees its memory before the next allocation
      auto made = MatmulTrial::make({command.op, command.dtype, command.out, command.size, command.weights}, threads);
      if (made) trial = std::move(made).value();
      if (!trial)
        set_failure(reply, made.error());
      else if ((reply.supported = trial->bind_library(**library)))
        reply.seconds = trial->estimate_call_seconds(threads);
    } else if (command.action == Command::Action::run) {
      reply.seconds = trial->time_calls(command.calls, threads);
    } else {
      reply.max_error = trial->measure_max_error();
    }
    if (::write(socket, &reply, sizeof reply) != static_cast<ssize_t>(sizeof reply)) break;
  }
}

Result<LibraryProcess> LibraryProcess::start(const std::string& library, int threads) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absent_error(fmt::format("no socket for {}: {}", library, std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) {
    const int why = errno;
    for (const int end : ends) close(end);
    return absent_error(fmt::format("no process for {}: {}", library, std::strerror(why)));
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    serve_commands(library, threads, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  return LibraryProcess(library, child, ends[0]);
}

LibraryProcess::LibraryProcess(LibraryProcess&& other) noexcept
    : library_(std::move(other.library_)),
      child_(std::exchange(other.child_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      current_product_(std::move(other.current_product_)) {}

LibraryProcess::~LibraryProcess() {
  // Shutdown ends the child's read and thereby the child; closing does not, as later children hold copies of it.
  if (socket_ >= 0) {
    shutdown(socket_, SHUT_RDWR);
    close(socket_);
  }
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

Error LibraryProcess::exit_error(const Command& command) {
  int status = 0;
  waitpid(std::exchange(child_, -1), &status, 0);
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string outcome = number != 0 ? fmt::format("was ended by signal {} ({})", number, strsignal(number))
                                          : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const std::string at_product = command.action == Command::Action::describe ? "" : " at " + current_product_;
  return absent_error(fmt::format("the process of {} {}{}", library_, outcome, at_product),
                      number == SIGKILL ? "the system may have had no memory left: leave the largest shapes out" : "");
}

Result<LibraryReply> LibraryProcess::send_command(const Command& command) {
  LibraryReply reply;
  const bool sent = send(socket_, &command, sizeof command, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof command);
  if (!sent || ::read(socket_, &reply, sizeof reply) != static_cast<ssize_t>(sizeof reply)) return exit_error(command);
  if (!reply.failed) return reply;
  return Error{.kind = reply.kind, .message = fmt::format("{}: {}", library_, reply.message), .hint = reply.hint};
}

Result<LibraryReply> LibraryProcess::prepare_product(const BenchmarkShape& shape) {
  Command command{.action = Command::Action::prepare, .dtype = shape.dtype, .out = shape.out, .size = shape.size};
  command.weights = shape.weights;
  shape.op.copy(command.op, sizeof command.op - 1);
  current_product_ = shape.text();
  return send_command(command);
}
Result<LibraryReply> LibraryProcess::run_calls(int calls) {
  return send_command({.action = Command::Action::run, .calls = calls});
}
Result<LibraryReply> LibraryProcess::check_result() { return send_command({.action = Command::Action::check}); }
Result<LibraryReply> LibraryProcess::describe() { return send_command({.action = Command::Action::describe}); }

}  // namespace ridge
