#include "ridge/distributed/mesh_placement.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

// A torus of four links whose pods join 256 chips; axes of at least 16 chips are rings.
Network make_torus() {
  Network out{.link = "ici", .topology = Topology::ring, .links = 4, .rate = 5e10};
  out.first_link_chips = 256;
  out.min_ring_chips = 16;
  out.outer_levels = {{"leaf", 3e9, 1024}, {"spine", 1e9, 0}};
  return out;
}

MeshPlacement place(const Mesh& mesh, std::map<char, std::int64_t> rings) {
  Network network = make_torus();
  network.rings_per_axis = std::move(rings);
  return place_mesh(mesh, network);
}

TEST(MeshPlacement, names_the_torus_axes_that_a_size_can_fill) {
  EXPECT_EQ(place({{{'X', 64}}}, {{'X', 2}}).text, "X=64 (16 x 4)");
  const MeshPlacement prime = place({{{'X', 7}}}, {{'X', 2}});
  EXPECT_EQ(prime.text, "X=7");
  EXPECT_EQ(prime.rings, (std::map<char, std::int64_t>{{'X', 1}}));
  EXPECT_EQ(place({{{'X', 16}, {'Y', 4}}}, {{'X', 1}, {'Y', 1}}).text, "X=16 Y=4");
}

TEST(MeshPlacement, names_the_slowest_link_of_each_axis) {
  const MeshPlacement two_pods = place({{{'X', 125}, {'Y', 4}}}, {{'X', 1}, {'Y', 1}});
  EXPECT_EQ(two_pods.outer_links, (std::map<char, std::string>{{'X', "leaf"}}));
  const MeshPlacement five_leaves = place({{{'X', 5}, {'Y', 1024}}}, {{'X', 1}, {'Y', 1}});
  EXPECT_EQ(five_leaves.outer_links, (std::map<char, std::string>{{'X', "spine"}, {'Y', "leaf"}}));
  EXPECT_EQ(place({{{'X', 512}}}, {{'X', 2}}).text, "X=512 (256 as 16 x 16)");
  EXPECT_TRUE(place({{{'X', 64}, {'Y', 4}}}, {{'X', 1}, {'Y', 1}}).outer_links.empty());
}

TEST(MeshPlacement, describes_the_levels_that_the_chips_need) {
  EXPECT_EQ(describe_outer_links(make_torus(), 256), "");
  EXPECT_EQ(describe_outer_links(make_torus(), 500), "; beyond 256 chips: leaf, 3.000 GB/s per chip");
  EXPECT_EQ(describe_outer_links(make_torus(), 1025),
            "; beyond 256 chips: leaf, 3.000 GB/s per chip; beyond 1024 chips: spine, 1.000 GB/s per chip");
}

}  // namespace
}  // namespace ridge
