# Dependencies, by find_package; the launcher (./ridge) lists the Debian packages. One error names all missing packages.
find_package(Threads REQUIRED)
set(absent "")
foreach(need IN ITEMS fmt:libfmt-dev nlohmann_json:nlohmann-json3-dev tomlplusplus:libtomlplusplus-dev CLI11:libcli11-dev)
  string(REPLACE ":" ";" words ${need})
  list(GET words 0 package)
  list(GET words 1 debian)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    list(APPEND absent ${debian})
  endif()
endforeach()
if(absent)
  list(JOIN absent " " absent)
  message(FATAL_ERROR "these packages are missing: apt-get install ${absent}")
endif()

# `ridge bench` loads oneDNN at run time; the build needs only its headers. Without them bench says what to install.
find_path(RIDGE_ONEDNN_HEADERS oneapi/dnnl/dnnl.h)
