#include "ridge/python/tensors.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace ridge::python {
namespace {

// DLPack's DLManagedTensorVersioned (dmlc/dlpack, version 1).
struct ManagedTensor {
  std::uint32_t major = 1, minor = 0;
  void* context = nullptr;
  void (*deleter)(ManagedTensor*) = nullptr;
  std::uint64_t flags = 0;
  nb::dlpack::dltensor tensor;
};

// DLPack's DLPackExchangeAPI (dmlc/dlpack, version 1.3). The functions return 0, or -1 with a Python error.
struct ExchangeApi {
  std::uint32_t major, minor;
  const ExchangeApi* previous;
  int (*allocate)(nb::dlpack::dltensor*, ManagedTensor**, void*, void (*)(void*, const char*, const char*));
  int (*export_tensor)(void*, ManagedTensor**);
  int (*import_tensor)(ManagedTensor*, void**);
  int (*view_tensor)(void*, nb::dlpack::dltensor*);
  int (*current_stream)(std::int32_t, std::int32_t, void**);
};

constexpr std::uint32_t api_version = 1;  // Major version of the table above

// Returns PyTorch's table, or nullptr if it has none.
const ExchangeApi* find_api() {
  const nb::object capsule =
      nb::getattr(nb::module_::import_("torch").attr("Tensor"), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->major != api_version) api = api->previous;
  return api;
}

// Objects of PyTorch that are looked up once and never released.
struct TorchNames {
  const ExchangeApi* api = find_api();
  PyObject* forward_mode = PyModule_GetDict(nb::module_::import_("torch.autograd.forward_ad").release().ptr());
  PyObject* current_level = PyUnicode_InternFromString("_current_level");
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
};

const TorchNames& torch_names() {
  static std::atomic<const TorchNames*> names = nullptr;
  if (names == nullptr) names = new TorchNames;  // No lock: an import may release the GIL
  return *names.load();
}

// Memory of a tensor that PyTorch imports: the table's structure, and its shape followed by its strides.
struct ImportedTensor {
  ManagedTensor managed;
  std::vector<std::int64_t> layout;

  static void release(ManagedTensor* managed) {
    auto* const self = static_cast<ImportedTensor*>(managed->context);
    std::free(managed->tensor.data);
    delete self;
  }
};

// True if the object is True; releases it. Raises its Python error if it is null.
bool is_true(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  Py_DECREF(object);
  return object == Py_True;
}

bool has_tangent(nb::handle tensor) {
  const TorchNames& names = torch_names();
  PyObject* const level = PyDict_GetItem(names.forward_mode, names.current_level);
  if (level == nullptr || PyLong_AsLong(level) < 0) return false;
  const nb::module_ forward_mode = nb::module_::import_("torch.autograd.forward_ad");
  if (!nb::cast<bool>(nb::module_::import_("torch").attr("_C").attr("_is_fwd_grad_enabled")())) return false;
  return !forward_mode.attr("unpack_dual")(tensor).attr("tangent").is_none();
}

}  // namespace

std::optional<nb::dlpack::dltensor> view_tensor(nb::handle tensor) {
  const ExchangeApi* const api = torch_names().api;
  if (api == nullptr || api->view_tensor == nullptr) return std::nullopt;
  nb::dlpack::dltensor out;
  if (api->view_tensor(tensor.ptr(), &out) == 0) return out;
  PyErr_Clear();
  return std::nullopt;
}

nb::object make_tensor(void* data, nb::dlpack::dtype dtype, std::span<const std::int64_t> shape) {
  const ExchangeApi* const api = torch_names().api;
  if (api == nullptr) return {};
  const std::size_t rank = shape.size();
  auto imported = std::make_unique<ImportedTensor>(ImportedTensor{{}, std::vector<std::int64_t>(2 * rank)});
  std::copy(shape.begin(), shape.end(), imported->layout.begin());
  std::int64_t stride = 1;
  for (std::size_t axis = rank; axis-- > 0; stride *= std::max<std::int64_t>(shape[axis], 1))
    imported->layout[rank + axis] = stride;
  ManagedTensor& managed = imported->managed;
  managed.context = imported.get();
  managed.deleter = ImportedTensor::release;
  managed.tensor = {data,  {nb::device::cpu::value, 0}, static_cast<std::int32_t>(rank),
                    dtype, imported->layout.data(),     imported->layout.data() + rank,
                    0};
  void* tensor = nullptr;
  if (api->import_tensor(&imported.release()->managed, &tensor) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(tensor));
}

bool has_derivative(nb::handle tensor) {
  if (is_true(PyObject_GetAttr(tensor.ptr(), torch_names().requires_grad)) &&
      nb::cast<bool>(nb::module_::import_("torch").attr("is_grad_enabled")()))
    return true;
  return has_tangent(tensor);
}

bool is_negated(nb::handle tensor) {
  return is_true(PyObject_CallMethodObjArgs(tensor.ptr(), torch_names().is_neg, nullptr));
}

}  // namespace ridge::python
