// What a caller says about a program to the value the broker starts it from, and the checks of the
// messages that follow the start. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/broker/broker.h"
#include "sandbroker/v1/execution.pb.h"

namespace sandbroker::services {

// `max_log_bytes`: the server's.
absl::StatusOr<broker::StartSpec> ReadStart(const v1::ExecStart& start, uint64_t max_log_bytes);

struct RunSpec {
  broker::StartSpec start;
  uint32_t output_cap = 0;
};
absl::StatusOr<RunSpec> ReadRun(const v1::RunRequest& request, uint64_t max_log_bytes);

// `next`: the offset that an unset one means. Answers the offset of the message's first byte.
absl::StatusOr<uint64_t> ReadStdinOffset(const v1::ExecStdin& input, uint64_t next);
absl::Status CheckSignal(const v1::ExecSignal& signal);
// `otherwise`: the grace of the program's own spec.
absl::StatusOr<Duration> ReadCancelGrace(const v1::ExecCancel& cancel, Duration otherwise);

}  // namespace sandbroker::services
