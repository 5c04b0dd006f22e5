#include "ridge/measure/contestant.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <random>

#include "ridge/base/float16.h"
#include "ridge/measure/baseline.h"

namespace ridge::measure {

struct Contestant::Request {
  enum class Verb { prepare, run, check, describe } verb;
  char op[8] = {};
  DType dtype = DType::f32, out = DType::f32;
  std::int64_t m = 0, n = 0, k = 0;
  int calls = 0;
};

namespace {

// Memory on 2 MiB pages where the system gives them, so that no library is slowed by page-table walks.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(std::max<std::size_t>((bytes + huge - 1) / huge * huge, huge)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : p;
    if (data_) madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_) munmap(data_, bytes_);
  }
  void* data() const { return data_; }

 private:
  static constexpr std::size_t huge = std::size_t{2} << 20;
  std::size_t bytes_;
  void* data_ = nullptr;
};

double seconds(int threads) {  // one thread: its own time, which a busy neighbour cannot lengthen
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::size_t bytes_of(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(elements) * static_cast<std::size_t>(bits(dtype)) / 8;
}

void fill(void* data, std::int64_t elements, DType dtype, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal;
  // Drawing a normal number is slow; a pool of a prime number of them, repeated, has no structure that a product could
  // notice.
  std::vector<float> pool(65521);
  for (float& x : pool) x = normal(engine);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float x = pool[static_cast<std::size_t>(i) % pool.size()];
    if (dtype == DType::bf16)
      static_cast<Bf16*>(data)[i] = to_bf16(x);
    else
      static_cast<float*>(data)[i] = x;
  }
}

double value(const void* data, std::int64_t i, DType dtype) {
  return dtype == DType::bf16 ? static_cast<double>(to_float(static_cast<const Bf16*>(data)[i]))
                              : static_cast<double>(static_cast<const float*>(data)[i]);
}

struct Bout {  // the product in hand
  kernels::MatmulProblem p;
  Buffer a, b, d;
  std::function<void()> call;

  explicit Bout(const kernels::MatmulProblem& problem)
      : p(problem),
        a(bytes_of(p.m * p.k, p.a.dtype)),
        b(bytes_of(p.k * p.n, p.b.dtype)),
        d(bytes_of(p.m * p.n, p.d.dtype)) {}

  double worst_error() const {
    std::mt19937_64 engine(7);
    double worst = 0;
    for (int s = 0; s < 200; ++s) {
      const auto i = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p.m));
      const auto j = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(p.n));
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double t = value(a.data(), i * p.a.row_stride + k * p.a.col_stride, p.a.dtype) *
                         value(b.data(), k * p.b.row_stride + j * p.b.col_stride, p.b.dtype);
        sum += t;
        size += std::abs(t);
      }
      const double got = value(d.data(), i * p.d.row_stride + j, p.d.dtype);
      const double error = std::abs(got - sum) / std::max(size, 1e-300);
      worst = std::isfinite(got) ? std::max(worst, error) : INFINITY;
    }
    return worst;
  }
};

}  // namespace

void Contestant::serve(const std::string& name, int threads, int socket) {
  auto library = load_matmul_library(name, threads);
  std::unique_ptr<Bout> bout;
  Request request{};
  while (read(socket, &request, sizeof request) == static_cast<ssize_t>(sizeof request)) {
    Answer answer;
    if (!library) {
      answer.took_part = false;
      fmt::format_to_n(answer.text, sizeof answer.text - 1, "{}; {}", library.error().message, library.error().hint);
    } else if (request.verb == Request::Verb::describe) {
      fmt::format_to_n(answer.text, sizeof answer.text - 1, "{}", (*library)->describe());
    } else if (request.verb == Request::Verb::prepare) {
      bout.reset();
      bout = std::make_unique<Bout>(
          ContestShape{request.op, request.dtype, request.out, request.m, request.n, request.k}.problem());
      const auto& p = bout->p;
      fill(bout->a.data(), p.m * p.k, p.a.dtype, 1);
      fill(bout->b.data(), p.k * p.n, p.b.dtype, 2);
      std::memset(bout->d.data(), 0xff, bytes_of(p.m * p.n, p.d.dtype));  // NaN: an element that nobody writes is found
      bout->call = (*library)->bind(p, bout->a.data(), bout->b.data(), bout->d.data());
      answer.took_part = static_cast<bool>(bout->call);
      if (bout->call) {
        bout->call();
        const double start = seconds(threads);
        bout->call();
        answer.seconds = seconds(threads) - start;
      }
    } else if (request.verb == Request::Verb::run) {
      bout->call();  // brings the clock and the caches back after the others' turns
      const double start = seconds(threads);
      for (int i = 0; i < request.calls; ++i) bout->call();
      answer.seconds = seconds(threads) - start;
    } else {
      answer.max_error = bout->worst_error();
    }
    if (write(socket, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) break;
  }
}

Result<Contestant> Contestant::start(const std::string& library, int threads) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absent_error(fmt::format("no socket for {}: {}", library, std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) return absent_error(fmt::format("no process for {}: {}", library, std::strerror(errno)));
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
      socket_(std::exchange(other.socket_, -1)) {}

Contestant::~Contestant() {
  // The child's read ends, and with it the child. Closing alone would not do: later children hold copies of this end.
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR), close(socket_);
  if (child_ > 0) waitpid(child_, nullptr, 0);
}

Result<Answer> Contestant::ask(const Request& request) {
  Answer answer;
  const bool sent = send(socket_, &request, sizeof request, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof request);
  if (sent && read(socket_, &answer, sizeof answer) == static_cast<ssize_t>(sizeof answer)) {
    if (!answer.took_part && answer.text[0]) return absent_error(fmt::format("{}: {}", library_, answer.text));
    return answer;
  }
  int status = 0;
  waitpid(std::exchange(child_, -1), &status, 0);
  return Error{.kind = ErrorKind::mismatch,
               .message = fmt::format("the process of {} ended ({} {}) at {} {} m={} n={} k={}", library_,
                                      WIFSIGNALED(status) ? "signal" : "exit code",
                                      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), request.op,
                                      name(request.dtype), request.m, request.n, request.k)};
}

Result<Answer> Contestant::prepare(const ContestShape& shape) {
  Request request{
      .verb = Request::Verb::prepare, .dtype = shape.dtype, .out = shape.out, .m = shape.m, .n = shape.n, .k = shape.k};
  shape.op.copy(request.op, sizeof request.op - 1);
  return ask(request);
}
Result<Answer> Contestant::run(int calls) { return ask({.verb = Request::Verb::run, .calls = calls}); }
Result<Answer> Contestant::check() { return ask({.verb = Request::Verb::check}); }
Result<Answer> Contestant::describe() { return ask({.verb = Request::Verb::describe}); }

}  // namespace ridge::measure
