// Rows to their groups and back on this CPU.
#pragma once

#include <span>

#include "ridge/ops/routing/problem.h"

namespace ridge::ops {

// Must not be refused; data as problem.h says.
void routed_rows(const RoutedRows& rows, std::span<void* const> data, int threads);

}  // namespace ridge::ops
