#include "ridge/kernels/run.h"

#include "ridge/tile/target/cpu/isa.h"

namespace ridge::kernels {

std::string isa() { return std::string(tile::cpu::name(tile::cpu::isa())); }

}  // namespace ridge::kernels
