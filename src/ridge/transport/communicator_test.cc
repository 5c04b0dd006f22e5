// A communicator sends nothing after its first error, however its callers handle that error.
#include "ridge/transport/communicator.h"

#include <gtest/gtest.h>

#include "ridge/transport/collectives.h"

namespace ridge::transport {
namespace {

// Rank 0 of 2, whose second exchange fails.
class FailingCommunicator final : public Communicator {
 public:
  FailingCommunicator() : Communicator(0, 2) {}
  std::string_view transport_name() const override { return "test"; }
  void abort_all(const Error&) noexcept override {}
  int exchanges() const { return exchanges_; }

 private:
  Status transfer_messages(std::span<const SendRequest>, std::span<const ReceiveRequest>) override {
    return ++exchanges_ == 2 ? Status(input_error("rank 1 ended")) : Done{};
  }
  int exchanges_ = 0;
};

TEST(Communicator, SendsNothingAfterItsFirstError) {
  FailingCommunicator failing;
  SubsetCommunicator subset(failing, 2);
  for (Communicator* const comm : {static_cast<Communicator*>(&failing), static_cast<Communicator*>(&subset)}) {
    const bool is_first = failing.exchanges() == 0;
    EXPECT_EQ(static_cast<bool>(barrier(*comm)), is_first);
    const Status failed = barrier(*comm);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "rank 1 ended");
    // Without a record of the failure, rank 0 would wait for a status of rank 1, whose messages no longer match.
    const Status agreed = agree_on_status(*comm, failed);
    ASSERT_FALSE(agreed);
    EXPECT_EQ(agreed.error().message, "rank 1 ended");
    EXPECT_EQ(failing.exchanges(), 2);
  }
}

}  // namespace
}  // namespace ridge::transport
