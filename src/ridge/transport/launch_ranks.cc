#include "ridge/transport/launch_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include "ridge/base/string_util.h"
#include "ridge/transport/shared_memory.h"

namespace ridge::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr int poll_ms = 50;            // interval at which the run's state is checked
constexpr int signal_exit_base = 128;  // shells report death by signal s as 128 + s
constexpr double exit_grace_s = 2.0;   // time for the other ranks to exit before they are killed

struct ChildProcess {
  pid_t pid = 0;
  int pipe_end = -1;  // read end of a pipe that closes when the process ends
  int status = 0;
  bool running = true;
};

Error finding_error(std::string message) {
  return {.kind = ErrorKind::finding, .message = std::move(message), .hint = "give smaller dimensions, or fewer ranks"};
}

int run_guarded(Communicator& comm, const std::function<int(Communicator&)>& work) {
  try {
    return work(comm);
  } catch (const std::bad_alloc&) {
    comm.abort_all(finding_error("out of memory"));
  } catch (const std::exception& error) {
    comm.abort_all(finding_error(fmt::format("unexpected: {}", error.what())));
  }
  return static_cast<int>(ErrorKind::finding);
}

class ProcessGroup {
 public:
  ProcessGroup(const SharedSegment& segment, double timeout_s) : segment_(segment), timeout_s_(timeout_s) {}

  // Returns false if the system cannot create another process.
  bool start_rank(int rank, const std::function<int(Communicator&)>& work) {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid < 0) {
      ::close(ends[0]);
      ::close(ends[1]);
      return false;
    }
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      SharedMemoryCommunicator comm(segment_, rank, timeout_s_);
      ::_exit(run_guarded(comm, work));
    }
    ::close(ends[1]);
    children_.push_back({pid, ends[0]});
    return true;
  }

  void wait_for_all() {
    while (running_count() > 0) {
      std::vector<pollfd> pipes;
      for (const ChildProcess& child : children_)
        if (child.running) pipes.push_back({child.pipe_end, 0, 0});
      ::poll(pipes.data(), pipes.size(), poll_ms);
      for (std::size_t r = 0; r < children_.size(); ++r) reap_child(static_cast<int>(r));
      if (segment_.run_end() && !ending_since_) ending_since_ = SteadyClock::now();
      if (ending_since_ && std::chrono::duration<double>(SteadyClock::now() - *ending_since_).count() > exit_grace_s)
        kill_all();
    }
  }

  void kill_all() {
    for (const ChildProcess& child : children_)
      if (child.running) ::kill(child.pid, SIGKILL);
  }

  LaunchResult launch_result() const {
    if (const auto ended = segment_.run_end()) {
      Error why = ended->why;
      if (ended->rank >= 0) why.message = fmt::format("rank {}: {}", ended->rank, why.message);
      return {static_cast<int>(why.kind), why};
    }
    return {WEXITSTATUS(children_.front().status), std::nullopt};
  }

 private:
  int running_count() const {
    int out = 0;
    for (const ChildProcess& child : children_) out += child.running ? 1 : 0;
    return out;
  }

  void reap_child(int rank) {
    ChildProcess& child = children_[rank];
    if (!child.running) return;
    const pid_t ended = ::waitpid(child.pid, &child.status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return;
    child.running = false;
    ::close(child.pipe_end);
    // The signal handlers of the command line exit with 128 + signal.
    const int code = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : 0;
    const int signal = WIFSIGNALED(child.status) ? WTERMSIG(child.status) : code - signal_exit_base;
    if (signal > 0) {
      segment_.end_run(rank,
                       {.kind = ErrorKind::finding,
                        .message = fmt::format("killed by signal {} ({})", signal, ::strsignal(signal)),
                        .hint = signal == SIGKILL ? "the system may have run out of memory: give smaller dimensions"
                                                  : "if you did not send it, please report the command"});
    } else if (code != 0) {
      ending_since_ = SteadyClock::now();  // the rank has printed its error; the others will end, too
    }
  }

  const SharedSegment& segment_;
  double timeout_s_;
  std::vector<ChildProcess> children_;
  std::optional<SteadyClock::time_point> ending_since_ = {};
};

}  // namespace

Result<LaunchResult> launch_ranks(int ranks, double timeout_s, const std::function<int(Communicator&)>& work) {
  RIDGE_TRY(segment, SharedSegment::make(ranks));
  ProcessGroup processes(segment, timeout_s);
  for (int rank = 0; rank < ranks; ++rank) {
    if (processes.start_rank(rank, work)) continue;
    const std::string reason = std::strerror(errno);
    processes.kill_all();
    segment.end_run(-1, {});
    processes.wait_for_all();
    return input_error(fmt::format("the system started {} of {} processes: {}", rank, ranks, reason),
                       "give fewer ranks");
  }
  processes.wait_for_all();
  return processes.launch_result();
}

namespace {

// Environment variables of each launcher. For srun these are the step's: a batch script has the job's but is no rank.
struct LauncherVariables {
  const char *name, *rank, *size, *local_size, *local_rank;
};
constexpr std::array launchers{
    LauncherVariables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                      "OMPI_COMM_WORLD_LOCAL_RANK"},
    LauncherVariables{"MPICH's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
    LauncherVariables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
};

// Parses the integer at the start of a text: srun writes "4(x2)" for four ranks on each of two nodes.
std::optional<int> parse_leading_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string all(text);
  const auto value = parse_whole_number(all.substr(0, all.find_first_of("(,")));
  if (!value || *value > (1 << 20)) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<Launcher> detect_launcher(const std::function<const char*(const char*)>& get_variable) {
  for (const LauncherVariables& one : launchers) {
    const auto rank = parse_leading_number(get_variable(one.rank)), size = parse_leading_number(get_variable(one.size));
    if (!rank || !size) continue;
    if (*size < 2 || *rank >= *size) return std::nullopt;
    const int reported_size = parse_leading_number(get_variable(one.local_size)).value_or(1);
    const int local_size = std::max(1, std::min(reported_size, *size));
    const int local_rank = parse_leading_number(get_variable(one.local_rank)).value_or(*rank % local_size);
    return Launcher{one.name, *rank, *size, local_size, std::min(local_rank, local_size - 1)};
  }
  return std::nullopt;
}

}  // namespace ridge::transport
