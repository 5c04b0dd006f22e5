#include "ridge/transport/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <vector>

#include "ridge/base/check.h"

namespace ridge::transport {

// Declarations as in NCCL's header: a result of 0 is success, a communicator is a pointer. A unique id has 128 bytes;
// one rank creates it and sends it to the others.
struct NcclId {
  std::array<char, 128> bytes{};
};
struct NcclLibrary {
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(NcclId*) = nullptr;
  int (*init_rank)(void**, int, NcclId, int) = nullptr;
  int (*split)(void*, int, int, void**, void*) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*get_async_error)(void*, int*) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, void*, CUstream_st*) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, CUstream_st*) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, CUstream_st*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, void*, CUstream_st*) = nullptr;
  int (*recv)(void*, std::size_t, int, int, void*, CUstream_st*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*get_error_string)(int) = nullptr;
};

namespace {

constexpr int as_bytes = 0;     // ncclInt8
constexpr int in_progress = 7;  // ncclInProgress
constexpr const char* cure =
    "install NCCL (on Debian-like systems libnccl2; PyTorch brings one), or name its library in RIDGE_NCCL";

int number_of(DType dtype) {
  switch (dtype) {
    case DType::int32: return 2;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::bf16: return 9;
    default: break;
  }
  RIDGE_CHECK(false, "the caller checks can_reduce() first");
}

int number_of(Reduction how) {
  switch (how) {
    case Reduction::sum: return 0;
    case Reduction::max: return 2;
    case Reduction::min: return 3;
  }
  RIDGE_CHECK(false, "there are three reductions");
}

template <class F> bool find(void* file, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(file, name));
  return function != nullptr;
}

bool find_all(void* file, NcclLibrary& out) {
  bool all = find(file, "ncclGetVersion", out.get_version) && find(file, "ncclGetUniqueId", out.get_unique_id);
  all = all && find(file, "ncclCommInitRank", out.init_rank) && find(file, "ncclCommSplit", out.split);
  all = all && find(file, "ncclCommDestroy", out.destroy) && find(file, "ncclAllGather", out.all_gather);
  all = all && find(file, "ncclAllReduce", out.all_reduce) && find(file, "ncclReduceScatter", out.reduce_scatter);
  all = all && find(file, "ncclSend", out.send) && find(file, "ncclRecv", out.recv);
  all = all && find(file, "ncclGroupStart", out.group_start) && find(file, "ncclGroupEnd", out.group_end);
  return all && find(file, "ncclCommGetAsyncError", out.get_async_error) &&
         find(file, "ncclGetErrorString", out.get_error_string);
}

Result<std::shared_ptr<const NcclLibrary>> opened(const std::string& named) {
  const std::string name = named.empty() ? "libnccl.so.2" : named;
  void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* const why = dlerror();
    return absent_error(fmt::format("NCCL was not found: {}", why != nullptr ? why : name), cure);
  }
  auto out = std::make_shared<NcclLibrary>();
  if (!find_all(file, *out)) return absent_error(fmt::format("{} is not NCCL, or is older than 2.18", name), cure);
  return std::shared_ptr<const NcclLibrary>(std::move(out));
}

Status checked(const NcclLibrary& library, int code, const char* what) {
  if (code == 0 || code == in_progress) return Done{};
  return absent_error(fmt::format("NCCL failed at {}: {}", what, library.get_error_string(code)),
                      "set NCCL_DEBUG=INFO for details");
}

}  // namespace

Result<std::unique_ptr<Nccl>> Nccl::join(Ranks& ranks, const std::string& library) {
  auto file = opened(library);
  if (const Status there = agree(ranks, file ? Status(Done{}) : file.error()); !there) return there.error();
  NcclId id;
  const int named = ranks.rank() == 0 ? (*file)->get_unique_id(&id) : 0;
  if (const Status made = agree(ranks, checked(**file, named, "creating a unique id")); !made) return made.error();
  if (const Status told = broadcast(ranks, std::as_writable_bytes(std::span(id.bytes))); !told) return told.error();
  void* communicator = nullptr;
  const int code = (*file)->init_rank(&communicator, ranks.size(), id, ranks.rank());
  const Status joined = agree(ranks, checked(**file, code, "connecting the ranks' devices"));
  if (!joined) return joined.error();
  return std::unique_ptr<Nccl>(new Nccl(*std::move(file), communicator, ranks.size()));
}

Result<std::unique_ptr<Nccl>> Nccl::among(const Some& some) const {
  void* they = nullptr;
  const int code = library_->split(communicator_, some.color, some.key, &they, nullptr);
  if (const Status split = done(code, "connecting some of the ranks"); !split) return split.error();
  return std::unique_ptr<Nccl>(new Nccl(library_, they, some.size));
}

Nccl::~Nccl() { (void)library_->destroy(communicator_); }

std::string Nccl::version() const {
  int number = 0;
  (void)library_->get_version(&number);
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Status Nccl::done(int code, const char* what) const { return checked(*library_, code, what); }

Status Nccl::all_gather(const std::byte* from, std::byte* to, std::size_t bytes, CUstream_st* stream) const {
  return done(library_->all_gather(from, to, bytes, as_bytes, communicator_, stream), "an all-gather");
}

Status Nccl::all_reduce(const AllReduce& what, const std::byte* from, std::byte* to, std::size_t elements,
                        CUstream_st* stream) const {
  return done(
      library_->all_reduce(from, to, elements, number_of(what.dtype), number_of(what.how), communicator_, stream),
      "an all-reduce");
}

Status Nccl::reduce_scatter(const AllReduce& what, const std::byte* from, std::byte* to, std::size_t elements,
                            CUstream_st* stream) const {
  return done(
      library_->reduce_scatter(from, to, elements, number_of(what.dtype), number_of(what.how), communicator_, stream),
      "a reduce-scatter");
}

Status Nccl::exchange(std::span<const Sent> sent, std::span<const Received> received, CUstream_st* stream) const {
  Status all = done(library_->group_start(), "an exchange");
  for (const Sent& one : sent)
    if (all && !one.piece.empty())
      all =
          done(library_->send(one.piece.data(), one.piece.size(), as_bytes, one.to, communicator_, stream), "sending");
  for (const Received& one : received)
    if (all && !one.piece.empty())
      all = done(library_->recv(one.piece.data(), one.piece.size(), as_bytes, one.from, communicator_, stream),
                 "receiving");
  const Status ended = done(library_->group_end(), "an exchange");
  return all ? ended : all;
}

Status Nccl::healthy() const {
  int trouble = 0;
  const Status asked = done(library_->get_async_error(communicator_, &trouble), "checking for errors");
  return asked ? done(trouble, "a collective") : asked;
}

}  // namespace ridge::transport
