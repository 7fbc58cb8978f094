// The shell around one Exec call: reads ahead of the caller within a bound, writes one message at a
// time, control before input. gRPC's threads enter through the On* reactions, callers through the
// rest; one mutex between them, never held while a callback runs.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/exec_progress.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "sandbroker/client/options.h"

namespace sandbroker::client {

class ExecStream final : public grpc::ClientBidiReactor<v1::ExecRequest, v1::ExecResponse> {
 public:
  // Without callbacks, events wait for Next.
  static std::shared_ptr<ExecStream> Start(std::shared_ptr<Connection> connection,
                                           v1::ExecRequest start, const ExecOptions& options,
                                           std::optional<ExecCallbacks> callbacks);

  const std::string& execution_id() const { return execution_id_; }
  absl::StatusOr<std::optional<Event>> Next();
  absl::StatusOr<v1::ExecEnded> Wait();
  absl::Status WriteStdin(std::string_view data);
  absl::Status CloseStdin();
  // A signal or a cancel.
  absl::Status SendControl(v1::ExecRequest request);
  void Detach();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  ExecStream(std::shared_ptr<Connection> connection, const v1::ExecRequest& start,
             const ExecOptions& options, std::optional<ExecCallbacks> callbacks);

  // With mutex_ held:
  void ReadMore();
  void WriteMore();
  bool InputCanGo() const;

  // Runs `callback` without the mutex and marks the thread meanwhile.
  template <typename Callback>
  void CallBack(std::unique_lock<std::mutex>& lock, Callback callback);

  const std::shared_ptr<Connection> connection_;
  const std::string execution_id_;
  const std::optional<ExecCallbacks> callbacks_;
  grpc::ClientContext context_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Set until gRPC is through with this object.
  std::shared_ptr<ExecStream> self_;
  ExecProgress progress_;
  std::deque<v1::ExecRequest> control_;
  std::deque<v1::ExecRequest> input_;
  v1::ExecRequest outgoing_;
  bool writing_ = false;
  v1::ExecResponse incoming_;
  bool reading_ = false;
  std::deque<Event> events_;
  size_t queued_bytes_ = 0;
  bool detached_ = false;
  // Nothing more can be read or written.
  bool over_ = false;
  std::optional<absl::Status> done_;
  std::thread::id callback_thread_;
};

}  // namespace sandbroker::client
