#include "lib/link/native_stream.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"
#include "lib/link/native_link.h"

namespace sandbroker::link {

NativeStream::NativeStream(std::shared_ptr<NativeLink> link, uint32_t id, uint64_t window,
                           broker::AgentStreamHandler* handler)
    : link_(std::move(link)), id_(id), window_(window), handler_(handler), granted_(window) {}

NativeStream::~NativeStream() {
  if (!over_ && link_->open()) {
    agent::Reset reset;
    reset.set_code(1);  // CANCELLED: the reader is lost
    reset.set_message("reader lost");
    link_->PushControl(wire::EncodeFrame(id_, wire::Kind::kReset, reset.SerializeAsString()));
  }
  link_->CloseStream(id_);
}

void NativeStream::Send(const agent::Command& command) {
  if (over_) return;
  std::string frame = wire::EncodeFrame(id_, wire::Kind::kEvent, command.SerializeAsString());
  if (command.has_close_input() && !pieces_.empty()) {
    close_input_ = std::move(frame);
  } else {
    link_->PushControl(std::move(frame));
  }
}

uint64_t NativeStream::InputRoom() const { return link_->table().SendRoom(id_) - queued_; }

void NativeStream::SendInput(uint64_t offset, SharedBytes data) {
  SANDBROKER_CHECK(data.size() <= InputRoom());
  queued_ += data.size();
  pieces_.push_back({offset, std::move(data)});
  link_->MarkReady(id_);
}

bool NativeStream::NextPiece(Piece* piece) {
  if (pieces_.empty() || over_) return false;
  // 64 KiB a turn, so that one stream's input does not keep the others waiting.
  constexpr uint64_t kTurn = 64 * 1024;
  Piece& first = pieces_.front();
  const uint64_t size = std::min<uint64_t>(first.bytes.size(), kTurn);
  *piece = {first.offset, first.bytes.Slice(0, size)};
  if (size == first.bytes.size()) {
    pieces_.pop_front();
  } else {
    first.bytes = first.bytes.Slice(size, first.bytes.size() - size);
    first.offset += size;
  }
  queued_ -= size;
  return true;
}

void NativeStream::Consumed(uint64_t bytes) {
  consumed_ += bytes;
  if (over_) return;
  const uint64_t total = consumed_ + window_;
  // Credit travels in quarters of the window: often enough never to stall a fast reader.
  if (total - granted_ < window_ / 4) return;
  granted_ = total;
  if (link_->table().GrantTotal(id_, total)) {
    link_->PushControl(wire::EncodeNumber(id_, wire::Kind::kCredit, total));
  }
}

void NativeStream::Ack(uint64_t offset) {
  if (over_) return;
  link_->PushControl(wire::EncodeNumber(id_, wire::Kind::kAck, offset));
}

}  // namespace sandbroker::link
