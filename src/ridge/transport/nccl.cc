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

constexpr int nccl_int8 = 0;         // ncclInt8
constexpr int nccl_in_progress = 7;  // ncclInProgress
constexpr const char* install_hint =
    "install NCCL (on Debian-like systems libnccl2; PyTorch brings one), or name its library in RIDGE_NCCL";

int nccl_dtype(DType dtype) {
  switch (dtype) {
    case DType::int32: return 2;
    case DType::f16: return 6;
    case DType::f32: return 7;
    case DType::bf16: return 9;
    default: break;
  }
  RIDGE_CHECK(false, "the caller checks can_reduce() first");
}

int nccl_op(ReduceOp how) {
  switch (how) {
    case ReduceOp::sum: return 0;
    case ReduceOp::max: return 2;
    case ReduceOp::min: return 3;
  }
  RIDGE_CHECK(false, "there are three reductions");
}

template <class F> bool find_symbol(void* file, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(file, name));
  return function != nullptr;
}

bool find_all_symbols(void* file, NcclLibrary& out) {
  bool all =
      find_symbol(file, "ncclGetVersion", out.get_version) && find_symbol(file, "ncclGetUniqueId", out.get_unique_id);
  all = all && find_symbol(file, "ncclCommInitRank", out.init_rank) && find_symbol(file, "ncclCommSplit", out.split);
  all = all && find_symbol(file, "ncclCommDestroy", out.destroy) && find_symbol(file, "ncclAllGather", out.all_gather);
  all = all && find_symbol(file, "ncclAllReduce", out.all_reduce) &&
        find_symbol(file, "ncclReduceScatter", out.reduce_scatter);
  all = all && find_symbol(file, "ncclSend", out.send) && find_symbol(file, "ncclRecv", out.recv);
  all = all && find_symbol(file, "ncclGroupStart", out.group_start) && find_symbol(file, "ncclGroupEnd", out.group_end);
  return all && find_symbol(file, "ncclCommGetAsyncError", out.get_async_error) &&
         find_symbol(file, "ncclGetErrorString", out.get_error_string);
}

Result<std::shared_ptr<const NcclLibrary>> open_library(const std::string& library_path) {
  const std::string name = library_path.empty() ? "libnccl.so.2" : library_path;
  void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* const why = dlerror();
    return absent_error(fmt::format("NCCL was not found: {}", why != nullptr ? why : name), install_hint);
  }
  auto out = std::make_shared<NcclLibrary>();
  if (!find_all_symbols(file, *out))
    return absent_error(fmt::format("{} is not NCCL, or is older than 2.18", name), install_hint);
  return std::shared_ptr<const NcclLibrary>(std::move(out));
}

Status check_nccl_result(const NcclLibrary& library, int code, const char* what) {
  if (code == 0 || code == nccl_in_progress) return Done{};
  return absent_error(fmt::format("NCCL failed at {}: {}", what, library.get_error_string(code)),
                      "set NCCL_DEBUG=INFO for details");
}

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::connect(Communicator& comm, const std::string& library) {
  auto file = open_library(library);
  RIDGE_TRY_STATUS(agree_on_status(comm, file ? Status(Done{}) : file.error()));
  NcclId id;
  const int named = comm.rank() == 0 ? (*file)->get_unique_id(&id) : 0;
  RIDGE_TRY_STATUS(agree_on_status(comm, check_nccl_result(**file, named, "creating a unique id")));
  RIDGE_TRY_STATUS(broadcast(comm, std::as_writable_bytes(std::span(id.bytes))));
  void* communicator = nullptr;
  const int code = (*file)->init_rank(&communicator, comm.size(), id, comm.rank());
  RIDGE_TRY_STATUS(agree_on_status(comm, check_nccl_result(**file, code, "connecting the ranks' devices")));
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(*std::move(file), communicator, comm.size()));
}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::split_group(const SubgroupSpec& subgroup) const {
  void* handle = nullptr;
  const int code = library_->split(communicator_, subgroup.color, subgroup.key, &handle, nullptr);
  RIDGE_TRY_STATUS(check_result(code, "connecting some of the ranks"));
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(library_, handle, subgroup.size));
}

NcclCommunicator::~NcclCommunicator() { (void)library_->destroy(communicator_); }

std::string NcclCommunicator::version() const {
  int number = 0;
  (void)library_->get_version(&number);
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

Status NcclCommunicator::check_result(int code, const char* what) const {
  return check_nccl_result(*library_, code, what);
}

Status NcclCommunicator::all_gather(const std::byte* from, std::byte* to, std::size_t bytes,
                                    CUstream_st* stream) const {
  return check_result(library_->all_gather(from, to, bytes, nccl_int8, communicator_, stream), "an all-gather");
}

Status NcclCommunicator::all_reduce(const ReduceSpec& spec, const std::byte* from, std::byte* to, std::size_t elements,
                                    CUstream_st* stream) const {
  return check_result(
      library_->all_reduce(from, to, elements, nccl_dtype(spec.dtype), nccl_op(spec.op), communicator_, stream),
      "an all-reduce");
}

Status NcclCommunicator::reduce_scatter(const ReduceSpec& spec, const std::byte* from, std::byte* to,
                                        std::size_t elements, CUstream_st* stream) const {
  return check_result(
      library_->reduce_scatter(from, to, elements, nccl_dtype(spec.dtype), nccl_op(spec.op), communicator_, stream),
      "a reduce-scatter");
}

Status NcclCommunicator::exchange_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received,
                                           CUstream_st* stream) const {
  Status all = check_result(library_->group_start(), "an exchange");
  for (const SendRequest& one : sent)
    if (all && !one.bytes.empty())
      all = check_result(library_->send(one.bytes.data(), one.bytes.size(), nccl_int8, one.to, communicator_, stream),
                         "sending");
  for (const ReceiveRequest& one : received)
    if (all && !one.bytes.empty())
      all = check_result(library_->recv(one.bytes.data(), one.bytes.size(), nccl_int8, one.from, communicator_, stream),
                         "receiving");
  const Status ended = check_result(library_->group_end(), "an exchange");
  return all ? ended : all;
}

Status NcclCommunicator::check_async_error() const {
  int error_code = 0;
  const Status queried = check_result(library_->get_async_error(communicator_, &error_code), "checking for errors");
  return queried ? check_result(error_code, "a collective") : queried;
}

}  // namespace ridge::transport
