#include "ridge/transport/launch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include "ridge/transport/shared.h"

namespace ridge::transport {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int look_ms = 50;  // interval at which the run's state is checked
constexpr int by_signal = 128;  // shells report death by signal s as 128 + s
constexpr double grace_s = 2.0;  // time for the other ranks to exit before they are killed

struct Child {
  pid_t process = 0;
  int line = -1;  // read end of a pipe that closes when the process ends
  int status = 0;
  bool running = true;
};

Error failed(std::string message) {
  return {.kind = ErrorKind::finding, .message = std::move(message), .hint = "give smaller dimensions, or fewer ranks"};
}

int guarded(Ranks& ranks, const std::function<int(Ranks&)>& work) {
  try {
    return work(ranks);
  } catch (const std::bad_alloc&) {
    ranks.abandon(failed("out of memory"));
  } catch (const std::exception& error) {
    ranks.abandon(failed(fmt::format("unexpected: {}", error.what())));
  }
  return static_cast<int>(ErrorKind::finding);
}

class Family {
 public:
  Family(const Segment& segment, double patience_s) : segment_(segment), patience_s_(patience_s) {}

  // Returns false if the system cannot create another process.
  bool start(int rank, const std::function<int(Ranks&)>& work) {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const pid_t parent = ::getpid(), process = ::fork();
    if (process < 0) {
      ::close(ends[0]);
      ::close(ends[1]);
      return false;
    }
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      SharedRanks ranks(segment_, rank, patience_s_);
      ::_exit(guarded(ranks, work));
    }
    ::close(ends[1]);
    children_.push_back({process, ends[0]});
    return true;
  }

  void wait_for_all() {
    while (running() > 0) {
      std::vector<pollfd> lines;
      for (const Child& child : children_)
        if (child.running) lines.push_back({child.line, 0, 0});
      ::poll(lines.data(), lines.size(), look_ms);
      for (std::size_t r = 0; r < children_.size(); ++r) collect(static_cast<int>(r));
      if (segment_.ended() && !ending_) ending_ = Clock::now();
      if (ending_ && std::chrono::duration<double>(Clock::now() - *ending_).count() > grace_s) kill_all();
    }
  }

  void kill_all() {
    for (const Child& child : children_)
      if (child.running) ::kill(child.process, SIGKILL);
  }

  Launched launched() const {
    if (const auto ended = segment_.ended()) {
      Error why = ended->why;
      if (ended->rank >= 0) why.message = fmt::format("rank {}: {}", ended->rank, why.message);
      return {static_cast<int>(why.kind), why};
    }
    return {WEXITSTATUS(children_.front().status), std::nullopt};
  }

 private:
  int running() const {
    int out = 0;
    for (const Child& child : children_) out += child.running ? 1 : 0;
    return out;
  }

  void collect(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    if (!child.running) return;
    const pid_t ended = ::waitpid(child.process, &child.status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return;
    child.running = false;
    ::close(child.line);
    // The signal handlers of the command line exit with 128 + signal.
    const int code = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 0;
    const int signal = WIFSIGNALED(child.status) ? WTERMSIG(child.status) : code - by_signal;
    if (signal > 0) {
      segment_.end(rank, {.kind = ErrorKind::finding,
                          .message = fmt::format("killed by signal {} ({})", signal, ::strsignal(signal)),
                          .hint = signal == SIGKILL ? "the system may have run out of memory: give smaller dimensions"
                                                    : "if you did not send it, please report the command"});
    } else if (code != 0) {
      ending_ = Clock::now();  // it has printed its error, and the other ranks will end, too
    }
  }

  const Segment& segment_;
  double patience_s_;
  std::vector<Child> children_;
  std::optional<Clock::time_point> ending_ = {};
};

}  // namespace

Result<Launched> launch(int ranks, double patience_s, const std::function<int(Ranks&)>& work) {
  const auto segment = Segment::make(ranks);
  if (!segment) return segment.error();
  Family family(*segment, patience_s);
  for (int rank = 0; rank < ranks; ++rank) {
    if (family.start(rank, work)) continue;
    const std::string reason = std::strerror(errno);
    family.kill_all();
    segment->end(-1, {});
    family.wait_for_all();
    return input_error(fmt::format("the system started {} of {} processes: {}", rank, ranks, reason),
                       "give fewer ranks");
  }
  family.wait_for_all();
  return family.launched();
}

}  // namespace ridge::transport
