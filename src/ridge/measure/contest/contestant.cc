#include "ridge/measure/contest/contestant.h"

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
#include "ridge/base/text.h"
#include "ridge/measure/contest/baseline.h"
#include "ridge/measure/fill.h"
#include "ridge/measure/memory.h"
#include "ridge/measure/timer.h"

namespace ridge {

struct Contestant::Request {
  enum class Verb { prepare, run, check, describe } verb;
  char op[8] = {};
  DType dtype = DType::f32, out = DType::f32;
  std::optional<DType> weights = {};
  std::int64_t m = 0, n = 0, k = 0;
  int calls = 0;
};

namespace {

constexpr std::uint64_t seed = 1;
constexpr int checked_elements = 200;

// Spreads this process's threads over the cores, then lets them migrate again. Linux may wake a library's thread on the
// core of its waker although another core is idle. If the waker spins, as libgomp's does, each call takes two scheduler
// ticks (8 ms) until the threads are separated by chance, which would misrepresent the library.
void spread_threads() {
  const std::vector<int> cpus = affinity();
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
class Trial {
 public:
  static Result<std::unique_ptr<Trial>> make(const ContestShape& shape, int threads) {
    auto trial = std::make_unique<Trial>();
    const ops::MatmulProblem& p = trial->p_ = shape.problem();
    const struct {
      DType dtype;
      std::int64_t elements;
      std::optional<ArrayStorage>& storage;
    } matrices[] = {
        {p.a.dtype, p.m * p.k, trial->a_}, {p.b.dtype, p.k * p.n, trial->b_}, {p.d.dtype, p.m * p.n, trial->d_}};
    for (const auto& [dtype, elements, storage] : matrices) {
      storage = ArrayStorage::make(dtype, elements);
      if (!storage) {
        const double bytes = static_cast<double>(elements) * bits(dtype) / 8;
        return input_error(fmt::format("the system refused {} of memory", engineering(bytes, "B")),
                           "leave the largest shapes out");
      }
    }
    fill_normal(trial->a_->array(), seed, 0, threads);
    fill_normal(trial->b_->array(), seed, 1, threads);
    poison(trial->d_->array(), threads);  // NaN marks elements that were never written
    return trial;
  }

  bool bind(MatmulLibrary& library) {
    call_ = library.bind(p_, a_->array().data, b_->array().data, d_->array().data);
    return static_cast<bool>(call_);
  }
  // Calls before the timing restore clock, caches and threads after the other libraries' turns; a thread that slept may
  // need a millisecond to reach full speed.
  double seconds(int calls, int threads) const {
    constexpr double warm = 2e-3;
    if (threads > 1) {
      call_();
      spread_threads();
    }
    for (const Timer since; since.seconds() < warm;) call_();
    const Timer timer(threads == 1 ? Clock::thread : Clock::wall);
    for (int i = 0; i < calls; ++i) call_();
    return timer.seconds();
  }

  // Estimates the seconds of one call. The first calls of a small product wait for threads and memory; counted as
  // typical, they would leave a turn with a dozen calls.
  double typical_seconds(int threads) const {
    constexpr double small = 5e-3;
    constexpr int calls = 16;
    const double first = seconds(1, threads);
    return first > small ? first : std::min(first, seconds(calls, threads) / calls);
  }

  double worst_error() const {
    std::mt19937_64 engine(7);
    double worst = 0;
    for (int s = 0; s < checked_elements; ++s) {
      const auto i = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p_.m));
      const auto j = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p_.n));
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < p_.k; ++k) {
        const double t = ridge::read(a_->array(), i * p_.a.row_stride + k * p_.a.col_stride) *
                         ridge::read(b_->array(), k * p_.b.row_stride + j * p_.b.col_stride);
        sum += t;
        size += std::abs(t);
      }
      const double got = ridge::read(d_->array(), i * p_.d.row_stride + j * p_.d.col_stride);
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

void fail(Answer& answer, const Error& error) {
  answer.failed = true;
  answer.took_part = false;
  answer.kind = error.kind;
  copy_text(answer.message, error.message);
  copy_text(answer.hint, error.hint);
}

}  // namespace

void Contestant::serve(const std::string& name, int threads, int socket) {
  auto library = load_matmul_library(name, threads);
  std::unique_ptr<Trial> trial;
  Request request{};
  while (::read(socket, &request, sizeof request) == static_cast<ssize_t>(sizeof request)) {
    Answer answer;
    if (!library) {
      fail(answer, library.error());
    } else if (request.verb == Request::Verb::describe) {
      copy_text(answer.text, (*library)->describe());
    } else if (request.verb == Request::Verb::prepare) {
      trial.reset();  // frees its memory before the next allocation
      auto made = Trial::make(
          {request.op, request.dtype, request.out, request.m, request.n, request.k, request.weights}, threads);
      if (made) trial = std::move(made).value();
      if (!trial)
        fail(answer, made.error());
      else if ((answer.took_part = trial->bind(**library)))
        answer.seconds = trial->typical_seconds(threads);
    } else if (request.verb == Request::Verb::run) {
      answer.seconds = trial->seconds(request.calls, threads);
    } else {
      answer.max_error = trial->worst_error();
    }
    if (::write(socket, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) break;
  }
}

Result<Contestant> Contestant::start(const std::string& library, int threads) {
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
    serve(library, threads, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  return Contestant(library, child, ends[0]);
}

Contestant::Contestant(Contestant&& other) noexcept
    : library_(std::move(other.library_)),
      child_(std::exchange(other.child_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      product_(std::move(other.product_)) {}

Contestant::~Contestant() {
  // Shutdown ends the child's read and thereby the child; closing does not, as later children hold copies of it.
  if (socket_ >= 0) {
    shutdown(socket_, SHUT_RDWR);
    close(socket_);
  }
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

Error Contestant::ended(const Request& request) {
  int status = 0;
  waitpid(std::exchange(child_, -1), &status, 0);
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string how = number != 0 ? fmt::format("was ended by signal {} ({})", number, strsignal(number))
                                      : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const std::string where = request.verb == Request::Verb::describe ? "" : " at " + product_;
  return absent_error(fmt::format("the process of {} {}{}", library_, how, where),
                      number == SIGKILL ? "the system may have had no memory left: leave the largest shapes out" : "");
}

Result<Answer> Contestant::ask(const Request& request) {
  Answer answer;
  const bool sent = send(socket_, &request, sizeof request, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof request);
  if (!sent || ::read(socket_, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) return ended(request);
  if (!answer.failed) return answer;
  return Error{.kind = answer.kind, .message = fmt::format("{}: {}", library_, answer.message), .hint = answer.hint};
}

Result<Answer> Contestant::prepare(const ContestShape& shape) {
  Request request{
      .verb = Request::Verb::prepare, .dtype = shape.dtype, .out = shape.out, .m = shape.m, .n = shape.n, .k = shape.k};
  request.weights = shape.weights;
  shape.op.copy(request.op, sizeof request.op - 1);
  product_ = shape.text();
  return ask(request);
}
Result<Answer> Contestant::run(int calls) { return ask({.verb = Request::Verb::run, .calls = calls}); }
Result<Answer> Contestant::check() { return ask({.verb = Request::Verb::check}); }
Result<Answer> Contestant::describe() { return ask({.verb = Request::Verb::describe}); }

}  // namespace ridge
