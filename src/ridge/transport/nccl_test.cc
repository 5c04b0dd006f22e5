// Tests the error of a missing NCCL, which must be the same on every rank. tests/gpu/ranks.cc compares NCCL's results
// with fp64 on devices.
#include "ridge/transport/nccl.h"

#include <gtest/gtest.h>

#include "ridge/transport/launch.h"

namespace ridge::transport {
namespace {

constexpr const char* cure =
    "install NCCL (on Debian-like systems libnccl2; PyTorch brings one), or name its library in RIDGE_NCCL";

// Returns the error that all ranks agree on.
std::string told(const std::string& library) {
  const auto launched = launch(2, 30, [&](Ranks& ranks) {
    const auto joined = Nccl::join(ranks, library);
    if (joined) return 0;
    ranks.note_agreed({});  // so that the error names no rank
    ranks.abandon(joined.error());
    return static_cast<int>(joined.error().kind);
  });
  if (!launched) return launched.error().text();
  return launched->cause ? launched->cause->message + "\n" + launched->cause->hint : "joined";
}

TEST(Nccl, that_is_absent_is_said_with_its_cure) {
  EXPECT_NE(told("/nowhere/libnccl.so.2")
                .find("rank 0: NCCL was not found: /nowhere/libnccl.so.2: cannot open shared "
                      "object file: No such file or directory\n" +
                      std::string(cure)),
            std::string::npos)
      << told("/nowhere/libnccl.so.2");
  EXPECT_NE(told("libm.so.6").find("rank 0: libm.so.6 is not NCCL, or is older than 2.18\n" + std::string(cure)),
            std::string::npos)
      << told("libm.so.6");
}

}  // namespace
}  // namespace ridge::transport
