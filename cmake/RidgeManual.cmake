# Installs the manual page, shell completions, machine files and examples (RidgeInstall.cmake has the rest).
# `cmake --build BUILD --target uninstall` removes the files in install_manifest.txt.
include(GNUInstallDirs)

set(manual ${CMAKE_CURRENT_BINARY_DIR}/manual)
add_custom_command(
  OUTPUT ${manual}/ridge.1 ${manual}/ridge ${manual}/_ridge ${manual}/ridge.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
  COMMAND ridge_cli man > ${manual}/ridge.1
  COMMAND ridge_cli completion bash > ${manual}/ridge
  COMMAND ridge_cli completion zsh > ${manual}/_ridge
  COMMAND ridge_cli completion fish > ${manual}/ridge.fish
  DEPENDS ridge_cli
  COMMENT "Manual page and completions"
  VERBATIM)
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(ridge_manual ALL DEPENDS ${manual}/ridge.1)
  install(FILES ${manual}/ridge.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime OPTIONAL)
  install(FILES ${manual}/ridge DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT runtime OPTIONAL)
  install(FILES ${manual}/_ridge DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT runtime OPTIONAL)
  install(FILES ${manual}/ridge.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime OPTIONAL)
  install(DIRECTORY examples machines models DESTINATION ${CMAKE_INSTALL_DATADIR}/ridge COMPONENT runtime)
  install(FILES docs/report.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/ridge COMPONENT runtime)
  install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
  if(NOT TARGET uninstall)
    add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake)
  endif()
endif()
