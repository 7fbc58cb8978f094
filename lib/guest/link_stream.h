// A stream of a link, attached to one execution: turns what the execution says into frames. Owned
// by its link. Agent thread only.
#pragma once

#include <memory>
#include <string>

#include "lib/guest/link.h"

namespace sandbroker::guest {

class Link::Stream final : public ExecutionStream {
 public:
  Stream(Link* owner, uint32_t stream_id) : id(stream_id), link_(owner) {}

  void OnOutputReady() override;
  void OnEvent(const agent::v1::Event& event) override;
  void OnInputRoom(uint64_t room) override;
  void OnReset(const absl::Status& why, const agent::v1::Ended* ended) override;

  const uint32_t id;
  std::shared_ptr<Execution> execution;

 private:
  Link* const link_;
  uint64_t granted_ = 0;
};

}  // namespace sandbroker::guest
