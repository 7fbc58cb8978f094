// One execution's stream on a NativeLink: its handler, its credit both ways, and the input that
// waits for its turn. Owned by the relay; the link holds a raw pointer that the destructor takes
// out. Loop thread only.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "lib/broker/agent_link.h"
#include "lib/wire/frame.h"

namespace sandbroker::link {

namespace agent = ::sandbroker::agent::v1;
class NativeLink;

class NativeStream final : public broker::AgentStream {
 public:
  NativeStream(std::shared_ptr<NativeLink> link, uint32_t id, uint64_t window,
               broker::AgentStreamHandler* handler);
  ~NativeStream() override;

  void Send(const agent::Command& command) override;
  uint64_t InputRoom() const override;
  void SendInput(uint64_t offset, SharedBytes data) override;
  void Consumed(uint64_t bytes) override;
  void Ack(uint64_t offset) override;

  broker::AgentStreamHandler* handler() { return handler_; }
  // The stream is over on the link's side; nothing more is sent.
  void MarkOver() { over_ = true; }

  // The next DATA to write, if there is one.
  struct Piece {
    uint64_t offset;
    SharedBytes bytes;
  };
  bool NextPiece(Piece* piece);
  bool has_pieces() const { return !pieces_.empty(); }
  // Control frames overtake data, the end of the input must not: its frame, to be queued once the
  // last piece was handed out. Empty when there is none.
  std::string TakeCloseInput() { return std::exchange(close_input_, {}); }

 private:
  const std::shared_ptr<NativeLink> link_;
  const uint32_t id_;
  const uint64_t window_;
  broker::AgentStreamHandler* const handler_;
  bool over_ = false;
  uint64_t consumed_ = 0;
  uint64_t granted_;
  std::deque<Piece> pieces_;
  std::string close_input_;
  uint64_t queued_ = 0;  // bytes in pieces_, which already use up room
};

}  // namespace sandbroker::link
