// Tests the error of a missing NCCL, which must be the same on every rank. tests/gpu/ranks.cc compares NCCL's results
// with fp64 on devices.
#include "ridge/transport/nccl.h"

#include <gtest/gtest.h>

#include "ridge/transport/launch_ranks.h"

namespace ridge::transport {
namespace {

constexpr const char* install_hint =
    "install NCCL (on Debian-like systems libnccl2; PyTorch brings one), or name its library in RIDGE_NCCL";

// Returns the error that all ranks agree on.
std::string reported_error(const std::string& library) {
  const auto launched = launch_ranks(2, 30, [&](Communicator& comm) {
    const auto joined = NcclCommunicator::connect(comm, library);
    if (joined) return 0;
    comm.record_agreed_error({});  // so that the error names no rank
    comm.abort_all(joined.error());
    return static_cast<int>(joined.error().kind);
  });
  if (!launched) return launched.error().to_string();
  return launched->cause ? launched->cause->message + "\n" + launched->cause->hint : "joined";
}

TEST(NcclCommunicator, a_missing_library_gives_an_install_hint) {
  EXPECT_NE(reported_error("/nowhere/libnccl.so.2")
                .find("rank 0: NCCL was not found: /nowhere/libnccl.so.2: cannot open shared "
                      "object file: No such file or directory\n" +
                      std::string(install_hint)),
            std::string::npos)
      << reported_error("/nowhere/libnccl.so.2");
  EXPECT_NE(reported_error("libm.so.6")
                .find("rank 0: libm.so.6 is not NCCL, or is older than 2.18\n" + std::string(install_hint)),
            std::string::npos)
      << reported_error("libm.so.6");
}

}  // namespace
}  // namespace ridge::transport
