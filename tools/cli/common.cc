#include "tools/cli/common.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <stop_token>
#include <utility>

#include "lib/base/strings.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/stdio.h"

namespace sandbroker::cli {
namespace {

constexpr std::chrono::seconds kConnectTimeout{3};

google::protobuf::Duration ToProto(std::chrono::nanoseconds duration) {
  google::protobuf::Duration result;
  result.set_seconds(duration.count() / 1'000'000'000);
  result.set_nanos(static_cast<int32_t>(duration.count() % 1'000'000'000));
  return result;
}

}  // namespace

std::string Describe(const absl::Status& status) {
  const client::Error error = client::ErrorOf(status);
  std::string text(status.message());
  for (const client::FieldViolation& violation : error.field_violations) {
    if (text.find(violation.field) == std::string::npos) {
      StrAppend(&text, "; ", violation.field, ": ", violation.description);
    }
  }
  std::string reason =
      error.reason.empty() ? absl::StatusCodeToString(status.code()) : error.reason;
  if (error.retry_after) {
    StrAppend(&reason, ", try again after ", ForPeople(ToProto(*error.retry_after)));
  }
  return StrCat(text, " (", reason, ")");
}

std::optional<client::Client> Connect(const std::string& address, int& exit_code) {
  absl::StatusOr<client::Client> client =
      client::Client::Connect(address, {.connect_timeout = kConnectTimeout});
  if (client.ok()) return *std::move(client);
  if (client.status().code() == absl::StatusCode::kInvalidArgument) {
    Complain(StrCat("--address or SANDBROKER_ADDRESS: ", std::string(client.status().message())));
    exit_code = kExitUsage;
  } else {
    Complain(StrCat(std::string(client.status().message()),
                    "; start one with `sandbrokerd`, or name another with --address or"
                    " SANDBROKER_ADDRESS"));
    exit_code = kExitFailure;
  }
  return std::nullopt;
}

std::optional<client::SandboxLease> Acquire(const client::Client& client,
                                            const client::AcquireOptions& options,
                                            Interrupts& interrupts, int& exit_code) {
  std::stop_source stop;
  std::atomic<int> received = 0;
  interrupts.SetHandler([&](int signal) {
    received = signal;
    stop.request_stop();
  });
  absl::StatusOr<client::SandboxLease> lease = client.Acquire(options, {.stop = stop.get_token()});
  interrupts.SetHandler(nullptr);
  if (received != 0) {
    // What was acquired all the same is given back by its handle.
    exit_code = ExitCodeOfSignal(received);
    return std::nullopt;
  }
  if (!lease.ok()) {
    Complain(Describe(lease.status()));
    exit_code = kExitFailure;
    return std::nullopt;
  }
  return *std::move(lease);
}

int Print(const std::string& text) {
  switch (WriteAll(STDOUT_FILENO, text)) {
    case WriteResult::kDone:
      return 0;
    case WriteResult::kClosed:
      return kExitFailure;
    case WriteResult::kFailed:
      Complain(StrCat("stdout: ", ErrorText(errno)));
      return kExitFailure;
  }
  return kExitFailure;
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] + 2 - row[i].size(), ' ');
    }
    text += "\n";
  }
  return text;
}

std::string ForPeople(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  if (seconds >= 3600) return StrCat(seconds / 3600, "h", seconds % 3600 / 60, "m");
  if (seconds >= 60) return StrCat(seconds / 60, "m", seconds % 60, "s");
  if (seconds > 0 || duration.nanos() == 0) return StrCat(seconds, "s");
  char text[32];
  std::snprintf(text, sizeof(text), "%.1fms", duration.nanos() / 1e6);
  return text;
}

}  // namespace sandbroker::cli
