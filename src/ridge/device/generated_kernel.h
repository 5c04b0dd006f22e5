// A kernel generated for one problem: its CUDA source and launch parameters. Steps, formats, vector widths and axes are
// constants of the source; sizes, strides and addresses are arguments, so that one compilation serves many sizes. This
// is plain C++: kernels are generated and compiled without a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

// Header that generated sources include, and its include path.
struct DeviceHeader {
  std::string_view name, text;
};
const std::vector<DeviceHeader>& device_headers();

namespace device {

struct GeneratedKernel {
  std::string source;                    // Defines the kernel `ridge_kernel`; includes `device_headers` by name.
  std::vector<std::uint64_t> arguments;  // Words of the kernel's only argument, a struct.
  std::int64_t blocks = 0;               // 0 if there is no work.
  int threads = 256, cluster_blocks = 1;
  int shared_bytes = 0;       // Dynamic shared memory per block.
  int min_blocks_per_sm = 0;  // For __launch_bounds__; 0 sets no minimum.
  bool persistent = false;    // Blocks loop over the work; only as many as run concurrently are launched.
};

// Returns the full source: the kernel's declaration around `body`, which uses the operations of `header`.
std::string make_kernel_source(const GeneratedKernel& kernel, std::string_view header, bool wide_indices,
                               std::string_view body);
inline constexpr std::string_view pointwise_header = "ridge/tile/cuda/vector_access.h";

}  // namespace device
}  // namespace ridge
