# The agent as a process, driven over its link.
sandbroker_test(agent_component_test
  SRCS
    ${CMAKE_SOURCE_DIR}/tests/component/agent_attach_test.cc
    ${CMAKE_SOURCE_DIR}/tests/component/agent_basics_test.cc
    ${CMAKE_SOURCE_DIR}/tests/component/agent_ends_test.cc
    ${CMAKE_SOURCE_DIR}/tests/component/agent_hostile_test.cc
    ${CMAKE_SOURCE_DIR}/tests/component/agent_tls_test.cc
    ${CMAKE_SOURCE_DIR}/tests/component/agent_trees_test.cc
  DEPS
    sandbroker::raw_link_client
  LABEL component
  TIMEOUT 120)
