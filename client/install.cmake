# The client as a package: find_package(sandbroker) gives sandbroker::client. Only what it stands on
# is installed beside it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sandbroker)
target_compile_features(sandbroker_client PUBLIC cxx_std_20)
foreach(name client client_error_wire proto base)
  set_target_properties(sandbroker_${name} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS sandbroker_client sandbroker_client_error_wire sandbroker_proto sandbroker_base
  EXPORT sandbroker
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/sandbroker
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${SANDBROKER_GEN_DIR}/sandbroker/v1
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sandbroker COMPONENT client FILES_MATCHING PATTERN "*.h")
install(EXPORT sandbroker NAMESPACE sandbroker:: DESTINATION ${package_dir} COMPONENT client)
configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/sandbroker-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/sandbroker-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sandbroker-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/sandbroker-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/sandbroker-config-version.cmake
  DESTINATION ${package_dir} COMPONENT client)
