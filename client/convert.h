// The caller's options as messages of the contract. Pure.
#pragma once

#include <string>

#include "google/protobuf/duration.pb.h"
#include "sandbroker/client/options.h"
#include "sandbroker/v1/broker.pb.h"

namespace sandbroker::client {

google::protobuf::Duration ToProto(Duration duration);
v1::AcquireRequest ToProto(const AcquireOptions& options);
v1::ExecutionSpec ToProto(const Program& program);
v1::ReleaseTaskSandboxesRequest ToProto(const ReleaseTaskOptions& options);
// Mints an execution id where there is none: a start without one could run twice.
v1::RunRequest ToRunRequest(const std::string& sandbox_id, const Program& program,
                            const RunOptions& options);
v1::ExecRequest ToExecRequest(const std::string& sandbox_id, const Program& program,
                              const ExecOptions& options);

}  // namespace sandbroker::client
