#include "lib/guest/link_stream.h"

namespace sandbroker::guest {

void Link::Stream::OnOutputReady() {
  link_->queue_.MarkReady(id);
  link_->socket_->Kick();
}

void Link::Stream::OnEvent(const agent::v1::Event& event) {
  link_->Push(wire::EncodeFrame(id, wire::Kind::kEvent, event.SerializeAsString()));
}

void Link::Stream::OnInputRoom(uint64_t room) {
  const uint64_t total = link_->table_.received(id) + room;
  // Small growth is not worth a frame; a window that is used up always grows enough later.
  if (granted_ != 0 && total < granted_ + InputPipe::kWindow / 4) return;
  if (!link_->table_.GrantTotal(id, total)) return;
  granted_ = total;
  link_->Push(wire::EncodeNumber(id, wire::Kind::kCredit, total));
}

void Link::Stream::OnReset(const absl::Status& why, const agent::v1::Ended* ended) {
  Link* const link = link_;
  link->SendReset(id, why, ended);
  link->ForgetStream(id);
}

}  // namespace sandbroker::guest
