# Runs before cpack makes a package: adds what Debian expects of one: a copyright file and a changelog,
# both under the name of the package, and a compressed manual page.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Ridge

Files: *
Copyright: 2026 The Ridge authors
License: Apache-2.0
 On Debian systems, the full text is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH replaces the time
foreach(package IN ITEMS runtime:ridge development:libridge-dev)
  string(REPLACE ":" ";" words ${package})
  list(GET words 0 component)
  list(GET words 1 name)
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  file(MAKE_DIRECTORY ${share}/doc/${name})
  file(WRITE ${share}/doc/${name}/copyright "${copyright}")
  file(WRITE ${share}/doc/${name}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * The changes are in CHANGELOG.md of the package ridge.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(REMOVE ${share}/doc/${name}/LICENSE)
  file(GLOB pages ${share}/man/man1/*.1)
  execute_process(COMMAND gzip -9nf ${pages} ${share}/doc/${name}/changelog COMMAND_ERROR_IS_FATAL ANY)
endforeach()
