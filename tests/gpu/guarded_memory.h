// Device memory with unmapped addresses on one side, so that a kernel that reads or writes there fails.
#pragma once

#include <cuda.h>

#include "support.h"

namespace ridge::gpu {

// Returns a function of the CUDA driver; the program exits with a message if the driver does not have it.
template <class Function> Function* find_driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
  if (result == cudaDriverEntryPointSuccess) return reinterpret_cast<Function*>(found);
  std::fprintf(stderr, "the CUDA driver has no %s\n", name);
  std::exit(2);
}

inline void check_driver(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: CUDA driver error %d\n", what, static_cast<int>(result));
  std::exit(2);
}

class GuardedMemory {
 public:
  enum class Side { before, after };

  // Maps at least `bytes` bytes between two unmapped ranges. The memory begins behind the first, or ends at most 15
  // bytes before the second.
  GuardedMemory(std::size_t bytes, Side side) {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "asking for the device");
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    std::size_t granularity = 0;
    static const auto find_granularity =
        find_driver_function<decltype(cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
    static const auto reserve = find_driver_function<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
    static const auto create = find_driver_function<decltype(cuMemCreate)>("cuMemCreate");
    static const auto map = find_driver_function<decltype(cuMemMap)>("cuMemMap");
    static const auto set_access = find_driver_function<decltype(cuMemSetAccess)>("cuMemSetAccess");
    check_driver(find_granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "the page size");
    mapped_bytes_ = (bytes + granularity - 1) / granularity * granularity;
    reserved_bytes_ = mapped_bytes_ + 2 * granularity;
    check_driver(reserve(&reserved_, reserved_bytes_, 0, 0, 0), "reserving addresses");
    check_driver(create(&handle_, mapped_bytes_, &properties, 0), "allocating device memory");
    mapped_ = reserved_ + granularity;
    check_driver(map(mapped_, mapped_bytes_, 0, handle_, 0), "mapping device memory");
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check_driver(set_access(mapped_, mapped_bytes_, &access, 1), "allowing access to device memory");
    constexpr std::size_t alignment = 16;  // of the copy engine
    data_ = mapped_ + (side == Side::before ? 0 : (mapped_bytes_ - bytes) / alignment * alignment);
  }
  ~GuardedMemory() {
    static const auto unmap = find_driver_function<decltype(cuMemUnmap)>("cuMemUnmap");
    static const auto release = find_driver_function<decltype(cuMemRelease)>("cuMemRelease");
    static const auto free_addresses = find_driver_function<decltype(cuMemAddressFree)>("cuMemAddressFree");
    unmap(mapped_, mapped_bytes_);
    release(handle_);
    free_addresses(reserved_, reserved_bytes_);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  char* data() const { return reinterpret_cast<char*>(data_); }

 private:
  CUdeviceptr reserved_ = 0, mapped_ = 0, data_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  std::size_t mapped_bytes_ = 0, reserved_bytes_ = 0;
};

}  // namespace ridge::gpu
