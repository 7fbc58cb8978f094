# A broker's end of a link, the agent as a process, and who may stand in between.
add_library(sandbroker_raw_link_client STATIC
  ${CMAKE_SOURCE_DIR}/tests/support/agent_process.cc
  ${CMAKE_SOURCE_DIR}/tests/support/interposer.cc
  ${CMAKE_SOURCE_DIR}/tests/support/raw_link_client.cc)
add_library(sandbroker::raw_link_client ALIAS sandbroker_raw_link_client)
target_link_libraries(sandbroker_raw_link_client PUBLIC
  sandbroker_options
  sandbroker::agent_proto
  sandbroker::asio_ssl
  sandbroker::async
  sandbroker::process
  sandbroker::tls
  sandbroker::wire)
target_compile_definitions(sandbroker_raw_link_client PRIVATE
  SANDBROKER_AGENT_PATH="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/sandbroker-agent")
add_dependencies(sandbroker_raw_link_client sandbroker-agent)
