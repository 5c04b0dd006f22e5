#include "ridge/roofline/sending/transfer_cost.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

constexpr LibraryTimes library{.call_s = 5,
                               .step_s = 1,
                               .narrow_rate = 2,
                               .wide_rate = 10,
                               .wide_delay_s = 30,
                               .copy_rate = 100,
                               .pairs = PairTimes{.narrow_rate = 4, .wide_rate = 20, .wide_delay_s = 7},
                               .switch_rate = 50,
                               .node_chips = 8};

double seconds(Collective kind, std::int64_t devices, double bytes, const LibraryTimes& times = library) {
  return TransferCost{.protocols = list_protocols(times, kind, devices)}.seconds(bytes);
}

TEST(TransferCost, takes_the_faster_protocol_of_a_library) {
  EXPECT_DOUBLE_EQ(seconds(Collective::all_gather, 4, 40), 5 + 3 + 30 / 2.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::all_gather, 4, 4000), 5 + 3 + 30 + 3000 / 10.0 + 1000 / 100.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::reduce_scatter, 4, 40), seconds(Collective::all_gather, 4, 40));
  EXPECT_DOUBLE_EQ(seconds(Collective::all_reduce, 4, 4000), 5 + 6 + 30 + 6000 / 10.0 + 1000 / 100.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::all_reduce, 8, 4000), 5 + 14 + 30 + 4000 / 50.0);  // In the switch
  EXPECT_DOUBLE_EQ(seconds(Collective::all_to_all, 4, 40), 5 + 1 + 30 / 4.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::all_to_all, 4, 4000), 5 + 1 + 7 + 3000 / 20.0);
  EXPECT_DOUBLE_EQ(seconds(Collective::permute, 4, 20), 5 + 1 + 20 / 4.0);
  LibraryTimes unpaired = library;
  unpaired.pairs.reset();
  EXPECT_TRUE(list_protocols(unpaired, Collective::all_to_all, 4).empty());
}

TEST(TransferCost, takes_no_less_than_the_links) {
  const TransferCost cost{.links = {2, 1}, .protocols = {{10, 0.5}, {4, 2}}};
  EXPECT_EQ(cost.seconds(1), 6);      // The second protocol; the links take 3
  EXPECT_EQ(cost.seconds(8), 14);     // The first protocol; the links take 10
  EXPECT_EQ(cost.seconds(100), 102);  // The links
  EXPECT_EQ(cost.limiting_time(8).wait_s, 10);
  EXPECT_EQ(TransferCost{.links = LinearTime(2, 1)}.seconds(3), 5);
}

}  // namespace
}  // namespace ridge
