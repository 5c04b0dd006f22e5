// Defines what programs otherwise take from libfmt.so; Debian has no static libfmt. The instantiations are those that
// fmt/format.h declares and fmt's own src/format.cc (9.1) defines.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
#if FMT_VERSION < 100000
template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float x) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double x) noexcept;
template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API std::locale locale_ref::get<std::locale>() const;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref);
template FMT_API char decimal_point_impl(locale_ref);
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
#endif
}  // namespace detail
FMT_END_NAMESPACE
