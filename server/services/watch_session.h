// One WatchSandboxes call: pulls events from a broker::Watch as fast as gRPC takes them, a few
// ahead; what the caller is too slow for waits in the Watch, which bounds it. Owned by its stream;
// loop thread only.
//
//   state     request               news, room         watch ended        caller gone
//   waiting   watch -> watching     -                  -                  over
//   watching  -                     events             over (its status)  over
#pragma once

#include <deque>
#include <memory>

#include "lib/broker/broker.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/stream_session.h"
#include "sandbroker/v1/sandbox.pb.h"
#include "server/services/authoriser.h"

namespace sandbroker::services {

// Events that are encoded already. Under its stream's lock.
class WatchOutbox final : public rpc::Outbox {
 public:
  void Push(const v1::WatchSandboxesResponse& event);
  bool empty() const override { return messages_.empty(); }
  bool last() const override { return messages_.size() == 1; }
  // Credit is one an event.
  rpc::Outgoing Pop() override;

 private:
  std::deque<grpc::ByteBuffer> messages_;
};

class WatchSession final : public rpc::StreamHandler<v1::WatchSandboxesRequest>,
                           public broker::WatchObserver {
 public:
  // Events under way to gRPC. It says that it has taken some when half of them are.
  static constexpr uint64_t kAhead = 64;

  // All of them outlive it. `outbox` belongs to `stream` and is used inside Send alone.
  WatchSession(rpc::StreamCore& stream, WatchOutbox* outbox, broker::Broker& broker,
               const Authoriser& authoriser);

  void OnRequest(v1::WatchSandboxesRequest request) override;
  void OnReadsDone() override {}
  void OnSent(uint64_t credit) override;
  void OnGone() override;

  void OnNews() override;
  void OnWatchEnded(const absl::Status& why) override;

 private:
  absl::Status Begin(const v1::WatchSandboxesRequest& request);

  rpc::StreamCore& stream_;
  WatchOutbox* const outbox_;
  broker::Broker& broker_;
  const Authoriser& authoriser_;
  std::unique_ptr<broker::Watch> watch_;
  uint64_t under_way_ = 0;
};

}  // namespace sandbroker::services
