// Communicator of the first ranks of another one, for a grid that leaves some ranks idle (6 of 7).
#pragma once

#include "ridge/transport/ranks.h"

namespace ridge::transport {

class FirstRanks final : public Ranks {
 public:
  FirstRanks(Ranks& all, int first) : Ranks(all.rank(), first), all_(all) {}
  int neighbours() const override { return all_.neighbours() < size() ? all_.neighbours() : size(); }
  int local_rank() const override { return all_.local_rank(); }
  std::string_view carrier() const override { return all_.carrier(); }
  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    count(sent);
    return all_.exchange(sent, received);
  }
  void abandon(const Error& why) noexcept override {
    if (is_agreed(why)) all_.note_agreed(why);
    all_.abandon(why);
  }

 private:
  Ranks& all_;
};

}  // namespace ridge::transport
