# Generates C++ for protos into build/PRESET/gen and wraps it in a library whose headers are
# SYSTEM includes, so that generated code is outside our warnings and checks.
set(SANDBROKER_GEN_DIR ${CMAKE_BINARY_DIR}/gen)

# sandbroker_proto(NAME ROOT dir PROTOS a.proto ... [GRPC b.proto ...] DEPS ...)
function(sandbroker_proto name)
  cmake_parse_arguments(ARG "" "ROOT" "PROTOS;GRPC;DEPS;IMPORTS" ${ARGN})
  set(outputs "")
  set(includes -I ${ARG_ROOT})
  foreach(import IN LISTS ARG_IMPORTS)
    list(APPEND includes -I ${import})
  endforeach()
  file(MAKE_DIRECTORY ${SANDBROKER_GEN_DIR})
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(out ${SANDBROKER_GEN_DIR}/${stem}.pb.cc)
    set(args --cpp_out=${SANDBROKER_GEN_DIR})
    set(outs ${out} ${SANDBROKER_GEN_DIR}/${stem}.pb.h)
    if(proto IN_LIST ARG_GRPC)
      list(APPEND args --grpc_out=${SANDBROKER_GEN_DIR}
           --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
      list(APPEND outs ${SANDBROKER_GEN_DIR}/${stem}.grpc.pb.cc ${SANDBROKER_GEN_DIR}/${stem}.grpc.pb.h)
      list(APPEND outputs ${SANDBROKER_GEN_DIR}/${stem}.grpc.pb.cc)
    endif()
    list(APPEND outputs ${out})
    add_custom_command(OUTPUT ${outs}
      COMMAND protobuf::protoc ${includes} ${args} ${ARG_ROOT}/${proto}
      DEPENDS ${ARG_ROOT}/${proto} protobuf::protoc VERBATIM)
  endforeach()
  add_library(sandbroker_${name} STATIC ${outputs})
  add_library(sandbroker::${name} ALIAS sandbroker_${name})
  target_compile_features(sandbroker_${name} PUBLIC cxx_std_20)
  target_include_directories(sandbroker_${name} SYSTEM PUBLIC
    $<BUILD_INTERFACE:${SANDBROKER_GEN_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(sandbroker_${name} PUBLIC ${ARG_DEPS})
  if(SANDBROKER_SANITIZE)
    target_compile_options(sandbroker_${name} PRIVATE -fsanitize=${SANDBROKER_SANITIZE})
  endif()
endfunction()
