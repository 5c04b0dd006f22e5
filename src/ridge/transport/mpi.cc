#include "ridge/transport/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "ridge/base/check.h"

namespace ridge::transport {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t max_message_bytes = std::size_t{1} << 30;  // bytes; MPI counts are int
constexpr int tag = 0;
constexpr int polls_before_sleep = 1000;  // polls without progress before a waiting rank starts to sleep
constexpr auto sleep_interval = std::chrono::microseconds(50);

// Storage for MPI_Status, which has 24 bytes in every Open MPI version.
struct alignas(8) MpiStatus {
  std::array<std::byte, 64> bytes{};
};

struct MpiLibrary {
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*comm_rank)(void*, int*) = nullptr;
  int (*comm_size)(void*, int*) = nullptr;
  int (*set_errhandler)(void*, void*) = nullptr;
  int (*isend)(const void*, int, void*, int, int, void*, void**) = nullptr;
  int (*irecv)(void*, int, void*, int, int, void*, void**) = nullptr;
  int (*test)(void**, int*, MpiStatus*) = nullptr;
  int (*get_count)(const MpiStatus*, void*, int*) = nullptr;
  int (*abort)(void*, int) = nullptr;
  int (*finalize)() = nullptr;
  int (*get_library_version)(char*, int*) = nullptr;
  void *world = nullptr, *byte = nullptr, *errors_return = nullptr;
};

template <class F> bool find_symbol(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

constexpr const char* install_hint =
    "install Open MPI (on Debian: apt install openmpi-bin), or name its library in RIDGE_MPI; on one machine --ranks "
    "needs no MPI";

bool find_all_symbols(void* file, MpiLibrary& out) {
  bool all = find_symbol(file, "MPI_Init_thread", out.init_thread) && find_symbol(file, "MPI_Comm_rank", out.comm_rank);
  all = all && find_symbol(file, "MPI_Comm_size", out.comm_size) && find_symbol(file, "MPI_Isend", out.isend);
  all = all && find_symbol(file, "MPI_Irecv", out.irecv) && find_symbol(file, "MPI_Test", out.test);
  all = all && find_symbol(file, "MPI_Get_count", out.get_count) && find_symbol(file, "MPI_Abort", out.abort);
  all = all && find_symbol(file, "MPI_Finalize", out.finalize) && find_symbol(file, "ompi_mpi_comm_world", out.world);
  all = all && find_symbol(file, "MPI_Comm_set_errhandler", out.set_errhandler);
  return all && find_symbol(file, "ompi_mpi_byte", out.byte) &&
         find_symbol(file, "ompi_mpi_errors_return", out.errors_return);
}

std::string library_version(const MpiLibrary& library) {
  std::array<char, 8192> text{};  // at least MPI_MAX_LIBRARY_VERSION_STRING of any MPI
  int length = 0;
  library.get_library_version(text.data(), &length);
  std::string all(text.data());
  std::replace(all.begin(), all.end(), '\t', ' ');
  return all.substr(0, all.find_first_of(",\n"));
}

Result<MpiLibrary> open_library(const std::string& library_path) {
  const std::vector<std::string> names =
      library_path.empty() ? std::vector<std::string>{"libmpi.so.40", "libmpi.so.80", "libmpi.so", "libmpi.so.12"}
                           : std::vector<std::string>{library_path};
  MpiLibrary out;
  for (const std::string& name : names) {
    void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // Open MPI's plug-ins need its symbols
    if (file == nullptr) continue;
    if (!find_symbol(file, "MPI_Get_library_version", out.get_library_version))
      return absent_error(fmt::format("{} is no MPI library", name), install_hint);
    if (find_all_symbols(file, out)) return out;
    return absent_error(
        fmt::format("{} is {}, whose binary interface differs; expected Open MPI", name, library_version(out)),
        install_hint);
  }
  const char* const why = dlerror();
  return absent_error(fmt::format("MPI was not found: {}", why != nullptr ? why : names.front()), install_hint);
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiLibrary& library, const Launcher& launcher, const MpiOptions& options)
      : Communicator(launcher.rank, launcher.size), mpi_(library), launcher_(launcher), options_(options) {}
  ~MpiCommunicator() override { mpi_.finalize(); }

  int local_size() const override { return launcher_.local_size; }
  int local_rank() const override { return launcher_.local_rank; }
  std::string_view transport_name() const override { return "Open MPI"; }

  // Calls MPI_Abort, which ends every rank, unless all ranks agreed on the error and so end by themselves.
  void abort_all(const Error& why) noexcept override {
    if (is_agreed_error(why)) return;
    Error reported = why;
    reported.message = fmt::format("rank {}: {}", rank(), why.message);
    if (options_.on_abort) options_.on_abort(reported);
    mpi_.abort(mpi_.world, static_cast<int>(why.kind));
  }

 private:
  struct PendingMessage {
    void* request = nullptr;
    int peer = 0;
    bool is_receive = false;
    int length = 0;
  };

  Status transfer_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received) override {
    std::vector<PendingMessage> messages;
    for (const ReceiveRequest& one : received) RIDGE_TRY_STATUS(post_receive(one, messages));
    for (const SendRequest& one : sent) RIDGE_TRY_STATUS(post_send(one, messages));
    count_sent_bytes(sent);
    return wait_for_all(std::move(messages));
  }

  // Calls use(begin, count) for each part of a message, at most `max_message_bytes` long.
  template <class Use> static Status for_each_part(std::size_t size, const Use& use) {
    std::size_t begin = 0;
    do {
      const std::size_t length = std::min(max_message_bytes, size - begin);
      RIDGE_TRY_STATUS(use(begin, static_cast<int>(length)));
      begin += length;
    } while (begin < size);
    return Done{};
  }

  Error mpi_error(std::string_view what, int peer, int code) const {
    return {.kind = ErrorKind::finding,
            .message = fmt::format("{} rank {}: MPI's error {}", what, peer, code),
            .hint = "give every rank the same program, sizes and version"};
  }

  Status post_receive(const ReceiveRequest& one, std::vector<PendingMessage>& messages) const {
    RIDGE_CHECK(one.from != rank() && one.from >= 0 && one.from < size(), "a rank does not receive from itself");
    return for_each_part(one.bytes.size(), [&](std::size_t begin, int length) -> Status {
      messages.push_back({nullptr, one.from, true, length});
      const int code =
          mpi_.irecv(one.bytes.data() + begin, length, mpi_.byte, one.from, tag, mpi_.world, &messages.back().request);
      return code == 0 ? Status(Done{}) : mpi_error("cannot receive from", one.from, code);
    });
  }

  Status post_send(const SendRequest& one, std::vector<PendingMessage>& messages) const {
    RIDGE_CHECK(one.to != rank() && one.to >= 0 && one.to < size(), "a rank does not send to itself");
    return for_each_part(one.bytes.size(), [&](std::size_t begin, int length) -> Status {
      messages.push_back({nullptr, one.to, false, length});
      const int code =
          mpi_.isend(one.bytes.data() + begin, length, mpi_.byte, one.to, tag, mpi_.world, &messages.back().request);
      return code == 0 ? Status(Done{}) : mpi_error("cannot send to", one.to, code);
    });
  }

  // True if the message is complete. Error: a message of unexpected length.
  Result<bool> is_complete(PendingMessage& m) const {
    MpiStatus status;
    int done = 0, received_bytes = 0;
    if (const int code = mpi_.test(&m.request, &done, &status); code != 0)
      return mpi_error(m.is_receive ? "cannot receive from" : "cannot send to", m.peer, code);
    if (done == 0 || !m.is_receive) return done != 0;
    mpi_.get_count(&status, mpi_.byte, &received_bytes);
    if (received_bytes == m.length) return true;
    return Error{
        .kind = ErrorKind::finding,
        .message = fmt::format("rank {} sends {} bytes where {} are expected", m.peer, received_bytes, m.length),
        .hint = "give every rank the same program, sizes and version"};
  }

  Status wait_for_all(std::vector<PendingMessage> messages) const {
    auto last = SteadyClock::now();
    for (int idle = 0; !messages.empty(); ++idle) {
      const std::size_t before = messages.size();
      for (std::size_t i = 0; i < messages.size();) {
        RIDGE_TRY(done, is_complete(messages[i]));
        if (done)
          messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
      if (messages.size() < before) {
        idle = 0;
        last = SteadyClock::now();
      } else if (idle > polls_before_sleep) {
        std::this_thread::sleep_for(sleep_interval);
        if (std::chrono::duration<double>(SteadyClock::now() - last).count() > options_.timeout_s)
          return Error{.kind = ErrorKind::finding,
                       .message = fmt::format("timed out after {:.3g} s of waiting for rank {}", options_.timeout_s,
                                              messages.front().peer),
                       .hint = "if that rank computes for longer, raise --patience"};
      } else {
        ::sched_yield();
      }
    }
    return Done{};
  }

  MpiLibrary mpi_;
  Launcher launcher_;
  MpiOptions options_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> connect_mpi(const Launcher& launcher, const MpiOptions& options) {
  RIDGE_TRY(library, open_library(options.library_path));
  int provided = 0, rank = 0, size = 0;
  if (library.init_thread(nullptr, nullptr, 0, &provided) != 0) return absent_error("MPI does not start", install_hint);
  library.set_errhandler(library.world, library.errors_return);
  library.comm_rank(library.world, &rank);
  library.comm_size(library.world, &size);
  if (rank != launcher.rank || size != launcher.size) {
    library.finalize();
    return absent_error(fmt::format("{} started rank {} of {}, and Open MPI sees rank {} of {}", launcher.name,
                                    launcher.rank, launcher.size, rank, size),
                        "start the ranks with mpirun, or with srun --mpi=pmix");
  }
  return std::unique_ptr<Communicator>(new MpiCommunicator(library, launcher, options));
}

}  // namespace ridge::transport
