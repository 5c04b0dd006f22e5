// Collectives by NCCL between the devices of ranks, one device for each rank. NCCL is not linked but loaded at run
// time. Pointers are device memory. Every call is queued on a CUDA stream and returns immediately. NCCL adds the sums:
// their bits are reproducible for a given NCCL version and number of ranks. Source: nccl.h of NCCL 2.18 to 2.30, in all
// of which the functions have the same signatures.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ridge/transport/collectives.h"
#include "ridge/transport/communicator.h"

struct CUstream_st;

namespace ridge::transport {

struct NcclLibrary;

class NcclCommunicator {
 public:
  // Collective call: all ranks call it, each after selecting its device. `library` is NCCL's path; empty: the system's
  // libnccl.so.2. Errors (kind `absent`, the same at every rank): NCCL is not found or cannot connect the devices, for
  // example because two ranks use the same one.
  static Result<std::unique_ptr<NcclCommunicator>> connect(Communicator& comm, const std::string& library);
  // Collective call: ranks with the same `color` form a subgroup of `size` ranks, ordered by `key`.
  struct SubgroupSpec {
    int color = 0, key = 0, size = 1;
  };
  Result<std::unique_ptr<NcclCommunicator>> split_group(const SubgroupSpec& subgroup) const;
  ~NcclCommunicator();

  int size() const { return size_; }
  std::string version() const;  // for example "2.28.9"

  // Gathers `bytes` bytes of every rank, contiguous in `to`.
  Status all_gather(const std::byte* from, std::byte* to, std::size_t bytes, CUstream_st* stream) const;
  Status all_reduce(const ReduceSpec& spec, const std::byte* from, std::byte* to, std::size_t elements,
                    CUstream_st* stream) const;
  // Input: size() * `elements` elements; output: the `elements` elements that belong to this rank.
  Status reduce_scatter(const ReduceSpec& spec, const std::byte* from, std::byte* to, std::size_t elements,
                        CUstream_st* stream) const;
  Status exchange_messages(std::span<const SendRequest> sent, std::span<const ReceiveRequest> received,
                           CUstream_st* stream) const;
  // Returns an asynchronous error of earlier calls, if any. To be called after waiting for the stream.
  Status check_async_error() const;

 private:
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, void* communicator, int size)
      : library_(std::move(library)), communicator_(communicator), size_(size) {}
  Status check_result(int code, const char* what) const;

  std::shared_ptr<const NcclLibrary> library_;
  void* communicator_;
  int size_;
};

}  // namespace ridge::transport
