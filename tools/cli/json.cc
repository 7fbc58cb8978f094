#include "tools/cli/json.h"

#include "google/protobuf/util/json_util.h"
#include "lib/base/check.h"

namespace sandbroker::cli {

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for types that are not compiled in.
  SANDBROKER_CHECK(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

std::string AcquiredToJson(const v1::AcquireResponse& acquired) {
  v1::AcquireResponse rest = acquired;
  rest.clear_sandbox();
  // Both print at least one field, so neither object is empty.
  std::string sandbox = ToJson(acquired.sandbox());
  sandbox.pop_back();
  return sandbox + "," + ToJson(rest).substr(1);
}

}  // namespace sandbroker::cli
