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

using Clock = std::chrono::steady_clock;
constexpr std::size_t longest_message = std::size_t{1} << 30;  // bytes; MPI counts are int
constexpr int tag = 0;
constexpr int eager_looks = 1000;  // polls without progress before a waiting rank starts to sleep
constexpr auto nap = std::chrono::microseconds(50);

// Storage for MPI_Status, which has 24 bytes in every Open MPI version.
struct alignas(8) StatusBytes {
  std::array<std::byte, 64> bytes{};
};

struct Library {
  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*comm_rank)(void*, int*) = nullptr;
  int (*comm_size)(void*, int*) = nullptr;
  int (*set_errhandler)(void*, void*) = nullptr;
  int (*isend)(const void*, int, void*, int, int, void*, void**) = nullptr;
  int (*irecv)(void*, int, void*, int, int, void*, void**) = nullptr;
  int (*test)(void**, int*, StatusBytes*) = nullptr;
  int (*get_count)(const StatusBytes*, void*, int*) = nullptr;
  int (*abort)(void*, int) = nullptr;
  int (*finalize)() = nullptr;
  int (*get_library_version)(char*, int*) = nullptr;
  void *world = nullptr, *byte = nullptr, *errors_return = nullptr;
};

template <class F> bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

constexpr const char* cure =
    "install Open MPI (on Debian: apt install openmpi-bin), or name its library in RIDGE_MPI; on one machine --ranks "
    "needs no MPI";

bool find_all(void* file, Library& out) {
  bool all = find(file, "MPI_Init_thread", out.init_thread) && find(file, "MPI_Comm_rank", out.comm_rank);
  all = all && find(file, "MPI_Comm_size", out.comm_size) && find(file, "MPI_Isend", out.isend);
  all = all && find(file, "MPI_Irecv", out.irecv) && find(file, "MPI_Test", out.test);
  all = all && find(file, "MPI_Get_count", out.get_count) && find(file, "MPI_Abort", out.abort);
  all = all && find(file, "MPI_Finalize", out.finalize) && find(file, "ompi_mpi_comm_world", out.world);
  all = all && find(file, "MPI_Comm_set_errhandler", out.set_errhandler);
  return all && find(file, "ompi_mpi_byte", out.byte) && find(file, "ompi_mpi_errors_return", out.errors_return);
}

std::string version_of(const Library& library) {
  std::array<char, 8192> text{};  // at least MPI_MAX_LIBRARY_VERSION_STRING of any MPI
  int length = 0;
  library.get_library_version(text.data(), &length);
  std::string all(text.data());
  std::replace(all.begin(), all.end(), '\t', ' ');
  return all.substr(0, all.find_first_of(",\n"));
}

Result<Library> opened(const std::string& named) {
  const std::vector<std::string> names =
      named.empty() ? std::vector<std::string>{"libmpi.so.40", "libmpi.so.80", "libmpi.so", "libmpi.so.12"}
                    : std::vector<std::string>{named};
  Library out;
  for (const std::string& name : names) {
    void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // Open MPI's plug-ins need its symbols
    if (file == nullptr) continue;
    if (!find(file, "MPI_Get_library_version", out.get_library_version))
      return absent_error(fmt::format("{} is no MPI library", name), cure);
    if (find_all(file, out)) return out;
    return absent_error(
        fmt::format("{} is {}, whose binary interface differs; expected Open MPI", name, version_of(out)), cure);
  }
  const char* const why = dlerror();
  return absent_error(fmt::format("MPI was not found: {}", why != nullptr ? why : names.front()), cure);
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks(const Library& library, const Launcher& launcher, const MpiOptions& options)
      : Ranks(launcher.rank, launcher.size), mpi_(library), launcher_(launcher), options_(options) {}
  ~MpiRanks() override { mpi_.finalize(); }

  int neighbours() const override { return launcher_.neighbours; }
  int local_rank() const override { return launcher_.local_rank; }
  std::string_view carrier() const override { return "Open MPI"; }

  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    std::vector<Message> messages;
    for (const Received& one : received)
      if (const Status posted = post_receive(one, messages); !posted) return posted;
    for (const Sent& one : sent)
      if (const Status posted = post_send(one, messages); !posted) return posted;
    count(sent);
    return finish(std::move(messages));
  }

  // Calls MPI_Abort, which ends every rank, unless all ranks agreed on the error and so end by themselves.
  void abandon(const Error& why) noexcept override {
    if (is_agreed(why)) return;
    Error told = why;
    told.message = fmt::format("rank {}: {}", rank(), why.message);
    if (options_.last_words) options_.last_words(told);
    mpi_.abort(mpi_.world, static_cast<int>(why.kind));
  }

 private:
  struct Message {
    void* request = nullptr;
    int other = 0;
    bool comes = false;
    int length = 0;
  };

  // Calls use(begin, count) for each part of a message, at most `max_message_bytes` long.
  template <class Use> static Status stretches(std::size_t size, const Use& use) {
    std::size_t begin = 0;
    do {
      const std::size_t length = std::min(longest_message, size - begin);
      if (const Status done = use(begin, static_cast<int>(length)); !done) return done;
      begin += length;
    } while (begin < size);
    return Done{};
  }

  Error failed(std::string_view what, int other, int code) const {
    return {.kind = ErrorKind::finding,
            .message = fmt::format("{} rank {}: MPI's error {}", what, other, code),
            .hint = "give every rank the same program, sizes and version"};
  }

  Status post_receive(const Received& one, std::vector<Message>& messages) const {
    RIDGE_CHECK(one.from != rank() && one.from >= 0 && one.from < size(), "a rank does not receive from itself");
    return stretches(one.piece.size(), [&](std::size_t begin, int length) -> Status {
      messages.push_back({nullptr, one.from, true, length});
      const int code =
          mpi_.irecv(one.piece.data() + begin, length, mpi_.byte, one.from, tag, mpi_.world, &messages.back().request);
      return code == 0 ? Status(Done{}) : failed("cannot receive from", one.from, code);
    });
  }

  Status post_send(const Sent& one, std::vector<Message>& messages) const {
    RIDGE_CHECK(one.to != rank() && one.to >= 0 && one.to < size(), "a rank does not send to itself");
    return stretches(one.piece.size(), [&](std::size_t begin, int length) -> Status {
      messages.push_back({nullptr, one.to, false, length});
      const int code =
          mpi_.isend(one.piece.data() + begin, length, mpi_.byte, one.to, tag, mpi_.world, &messages.back().request);
      return code == 0 ? Status(Done{}) : failed("cannot send to", one.to, code);
    });
  }

  // True if the message is complete. Error: a message of unexpected length.
  Result<bool> over(Message& m) const {
    StatusBytes status;
    int done = 0, came = 0;
    if (const int code = mpi_.test(&m.request, &done, &status); code != 0)
      return failed(m.comes ? "cannot receive from" : "cannot send to", m.other, code);
    if (done == 0 || !m.comes) return done != 0;
    mpi_.get_count(&status, mpi_.byte, &came);
    if (came == m.length) return true;
    return Error{.kind = ErrorKind::finding,
                 .message = fmt::format("rank {} sends {} bytes where {} are expected", m.other, came, m.length),
                 .hint = "give every rank the same program, sizes and version"};
  }

  Status finish(std::vector<Message> messages) const {
    auto last = Clock::now();
    for (int idle = 0; !messages.empty(); ++idle) {
      const std::size_t before = messages.size();
      for (std::size_t i = 0; i < messages.size();) {
        const auto done = over(messages[i]);
        if (!done) return done.error();
        if (*done)
          messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
      if (messages.size() < before) {
        idle = 0;
        last = Clock::now();
      } else if (idle > eager_looks) {
        std::this_thread::sleep_for(nap);
        if (std::chrono::duration<double>(Clock::now() - last).count() > options_.patience_s)
          return Error{.kind = ErrorKind::finding,
                       .message = fmt::format("timed out after {:.3g} s of waiting for rank {}", options_.patience_s,
                                              messages.front().other),
                       .hint = "if that rank computes for longer, raise --patience"};
      } else {
        ::sched_yield();
      }
    }
    return Done{};
  }

  Library mpi_;
  Launcher launcher_;
  MpiOptions options_;
};

}  // namespace

Result<std::unique_ptr<Ranks>> mpi_ranks(const Launcher& launcher, const MpiOptions& options) {
  const auto library = opened(options.library);
  if (!library) return library.error();
  int provided = 0, rank = 0, size = 0;
  if (library->init_thread(nullptr, nullptr, 0, &provided) != 0) return absent_error("MPI does not start", cure);
  library->set_errhandler(library->world, library->errors_return);
  library->comm_rank(library->world, &rank);
  library->comm_size(library->world, &size);
  if (rank != launcher.rank || size != launcher.size) {
    library->finalize();
    return absent_error(fmt::format("{} started rank {} of {}, and Open MPI sees rank {} of {}", launcher.name,
                                    launcher.rank, launcher.size, rank, size),
                        "start the ranks with mpirun, or with srun --mpi=pmix");
  }
  return std::unique_ptr<Ranks>(new MpiRanks(*library, launcher, options));
}

}  // namespace ridge::transport
