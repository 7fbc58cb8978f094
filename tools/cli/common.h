// What all subcommands share: finding the server, saying what went wrong, printing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/duration.pb.h"
#include "sandbroker/client/client.h"
#include "tools/cli/interrupts.h"

namespace sandbroker::cli {

// "MESSAGE (REASON, try again after 2s)".
std::string Describe(const absl::Status& status);

// Complains with what to do about it when nothing answers; `exit_code` is set then.
std::optional<client::Client> Connect(const std::string& address, int& exit_code);

// Acquires until interrupted; complains on failure, and sets `exit_code` then.
std::optional<client::SandboxLease> Acquire(const client::Client& client,
                                            const client::AcquireOptions& options,
                                            Interrupts& interrupts, int& exit_code);

// `text` on stdout as it stands; 0, or kExitFailure after a complaint.
int Print(const std::string& text);

// Columns under headings, for people.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// "1h5m", "12s", "0.7ms".
std::string ForPeople(const google::protobuf::Duration& duration);

}  // namespace sandbroker::cli
