// Collectives between the devices of ranks, each rank one device, by NCCL: a library that is opened at run time, since
// nothing of it is linked. Memory is the device's, and every call is queued on a CUDA stream and returns at once. Sums
// are NCCL's: bit-equal between runs with one version of it and one number of ranks. Source: nccl.h of NCCL 2.18 to
// 2.30, whose functions have the same form in all of them.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ridge/transport/collectives.h"
#include "ridge/transport/ranks.h"

struct CUstream_st;

namespace ridge::transport {

struct NcclLibrary;

class Nccl {
 public:
  // To be called by all ranks at once, each of which has chosen its device. `library`: its file; empty: the system's,
  // libnccl.so.2. Errors, of kind absent and the same at every rank: no such library, devices that it does not join
  // (two ranks on one device).
  static Result<std::unique_ptr<Nccl>> join(Ranks& ranks, const std::string& library);
  // The ranks that give the same `color`, numbered by `key`, so many in all; every rank calls it at once.
  struct Some {
    int color = 0, key = 0, size = 1;
  };
  Result<std::unique_ptr<Nccl>> among(const Some& some) const;
  ~Nccl();

  int size() const { return size_; }
  std::string version() const;  // "2.28.9"

  // `bytes` of every rank, one behind the other in `to`.
  Status all_gather(const std::byte* from, std::byte* to, std::size_t bytes, CUstream_st* stream) const;
  Status all_reduce(const AllReduce& what, const std::byte* from, std::byte* to, std::size_t elements,
                    CUstream_st* stream) const;
  // Of size() times so many elements each rank's own.
  Status reduce_scatter(const AllReduce& what, const std::byte* from, std::byte* to, std::size_t elements,
                        CUstream_st* stream) const;
  Status exchange(std::span<const Sent> sent, std::span<const Received> received, CUstream_st* stream) const;
  // What went wrong since, on a device or on the way; to be asked where a stream has been waited for.
  Status healthy() const;

 private:
  Nccl(std::shared_ptr<const NcclLibrary> library, void* communicator, int size)
      : library_(std::move(library)), communicator_(communicator), size_(size) {}
  Status done(int code, const char* what) const;

  std::shared_ptr<const NcclLibrary> library_;
  void* communicator_;
  int size_;
};

}  // namespace ridge::transport
