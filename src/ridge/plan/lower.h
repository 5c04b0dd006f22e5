// The two lowerings, and the plan that they add to. Internal to plan/.
#pragma once

#include "ridge/plan/plan.h"
#include "ridge/plan/shape.h"

namespace ridge {

struct Lowering {
  const Program& program;
  const Bindings& dims;
  std::vector<Shape> shapes;  // of Program::tensors
  Plan plan;

  int add_buffer(DType dtype, std::int64_t elements);
  const std::string& tensor_name(int tensor) const { return program.tensors[static_cast<std::size_t>(tensor)].name; }
  const Shape& shape_of(int tensor) const { return shapes[static_cast<std::size_t>(tensor)]; }
  DType dtype_of(int tensor) const { return program.tensors[static_cast<std::size_t>(tensor)].dtype; }
};

void lower(Lowering& to, int statement, const Contraction& contraction);
void lower(Lowering& to, int statement, const Expression& expression);

// One end of a copy or of a chain: a buffer, walked by `shape`.
struct View {
  int buffer = 0;
  DType dtype = DType::f32;
  Shape shape;
};

// A step that writes `to` from `from`, element by element: reorders, converts.
Step copy_step(int statement, const View& from, const View& to, std::string what);

// A chain's tensor over an index space.
kernels::ChainTensor chain_tensor(const View& view, const Shape& space);

}  // namespace ridge
