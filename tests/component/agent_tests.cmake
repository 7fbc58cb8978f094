# The agent as a process, driven over its link.
sandbroker_test(agent_component_test
  SRCS
    ${CMAKE_SOURCE_DIR}/tests/component/agent_basics_test.cc
  DEPS
    sandbroker::raw_link_client
  LABEL component
  TIMEOUT 120)
