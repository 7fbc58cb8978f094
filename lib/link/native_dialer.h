// Dials agents, on unix sockets or by TLS on TCP, and hands out links once both sides have proved
// themselves. Loop thread only; outlives the links it made.
#pragma once

#include <functional>
#include <memory>

#include "lib/async/loop.h"
#include "lib/broker/agent_link.h"
#include "lib/link/native_link.h"

namespace sandbroker::link {

class NativeDialer final : public broker::AgentDialer {
 public:
  NativeDialer(Loop& loop, LinkSettings settings);
  ~NativeDialer() override;
  // A connection that is refused, or breaks before the proof, is tried again until `bound`.
  void Dial(const broker::DialTarget& target, Duration bound,
            std::function<void(const absl::Status& why)> on_lost,
            std::function<void(absl::StatusOr<Dialed>)> done) override;

 private:
  struct Tls;

  Loop& loop_;
  const LinkSettings settings_;
  std::shared_ptr<ChunkPool> chunks_;
  const std::unique_ptr<Tls> tls_;
};

}  // namespace sandbroker::link
