// The menu of CUDA kernels: found by name, with their code.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/facade.h"
#include "ridge/base/text.h"
#include "ridge/ops/product/machine_code.h"

namespace ridge::api {

Result<std::vector<MenuEntry>> kernel_menu(const std::string& name) {
  std::vector<MenuEntry> found;
  std::vector<std::string> names;
  for (MenuEntry& entry : menu_list()) {
    names.push_back(entry.name);
    if (entry.name.find(name) != std::string::npos) found.push_back(std::move(entry));
  }
  if (!found.empty()) return found;
  const std::string near = nearest(name, names);
  return input_error(fmt::format("no kernel is called '{}'", name),
                     near.empty() ? "`ridge kernels` lists them" : fmt::format("did you mean {}?", near));
}

Result<KernelCode> kernel_code(const std::string& name, Listing what, DType in) {
  auto found = kernel_menu(name);
  if (!found) return found.error();
  const auto exact = std::find_if(found->begin(), found->end(), [&](const MenuEntry& e) { return e.name == name; });
  if (exact == found->end() && found->size() > 1)
    return usage_error(
        fmt::format("expected one kernel's whole name, found '{}', which {} names hold", name, found->size()),
        fmt::format("`ridge kernels {}` lists them", name));
  const MenuEntry& entry = exact == found->end() ? found->front() : *exact;
  const bool sass = what == Listing::sass;
  auto text = ops::cuda::code_text(entry.config, in, sass ? ops::cuda::CodeText::sass : ops::cuda::CodeText::ptx,
                                   ops::cuda::toolkit_folders());
  if (!text) return text.error();
  return KernelCode{entry, std::string(ridge::name(in)), sass ? "sass" : "ptx", *std::move(text)};
}

}  // namespace ridge::api
