# Install into an empty prefix, configure and build project/ against it, run what came out.
# A step that fails ends the script with its output.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}: ${result}\n${out}")
  endif()
  set(step_output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(prefix ${WORK_DIR}/prefix)
step(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix} --component client)
step(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/project -B ${WORK_DIR}/build -G Ninja
  -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${CXX})
step(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
step(${WORK_DIR}/build/consumer unix:${WORK_DIR}/nobody.sock)
if(NOT step_output MATCHES "no server answers at unix:")
  message(FATAL_ERROR "unexpected output: ${step_output}")
endif()
# Nothing that was installed may point back into this source or build tree.
file(GLOB_RECURSE configs ${prefix}/*.cmake)
foreach(config IN LISTS configs)
  file(READ ${config} text)
  if(text MATCHES "${BUILD_DIR}/(gen|lib|client|proto)")
    message(FATAL_ERROR "${config} names the build tree")
  endif()
endforeach()
