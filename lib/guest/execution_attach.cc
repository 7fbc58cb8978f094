// Execution: who is attached to it, and what they send it.
#include <algorithm>
#include <utility>

#include "lib/base/status.h"
#include "lib/guest/execution.h"

namespace sandbroker::guest {

Execution::Attachment* Execution::Find(ExecutionStream* stream) {
  const auto it = std::find_if(attachments_.begin(), attachments_.end(),
                               [stream](const Attachment& a) { return a.stream == stream; });
  return it == attachments_.end() ? nullptr : &*it;
}

const Execution::Attachment* Execution::Find(ExecutionStream* stream) const {
  return const_cast<Execution*>(this)->Find(stream);
}

absl::Status Execution::AttachReader(const agent::v1::Reader& reader, Attachment* attachment,
                                     uint64_t* live_from, std::optional<agent::v1::Gap>* gap) {
  OutputLog::ReaderRequest request;
  request.holder = reader.holder();
  request.attempt = reader.attempt();
  request.offset = reader.offset();
  request.acks = reader.acks();
  request.takeover = reader.takeover();
  const auto attached = log_->Attach(request, Now());
  if (!attached.ok()) return attached.status();
  attachment->reader = attached->id;
  *live_from = attached->live_from;
  if (attached->offset != reader.offset()) {
    attachment->gap = true;
    gap->emplace();
    (*gap)->set_from(reader.offset());
    (*gap)->set_to(attached->offset);
  }
  DisplaceReader(attached->displaced, attachment->stream);
  return absl::OkStatus();
}

absl::Status Execution::AttachWriter(const agent::v1::Writer& writer, Attachment* attachment) {
  const auto epoch = ledger_.Attach(writer.holder(), writer.attempt());
  if (!epoch.ok()) return epoch.status();
  attachment->epoch = *epoch;
  DisplaceWriter(attachment->stream);
  return absl::OkStatus();
}

void Execution::DisplaceReader(uint64_t reader, ExecutionStream* by) {
  if (reader == 0) return;
  for (const Attachment& other : attachments_) {
    if (other.reader != reader || other.stream == by) continue;
    return ResetStream(other.stream,
                       MakeError(Reason::kTakenOver, "a newer reader took the output over"));
  }
}

// A stream that only wrote is over; one that reads as well goes on reading.
void Execution::DisplaceWriter(ExecutionStream* by) {
  for (Attachment& other : attachments_) {
    if (other.stream == by || other.epoch == 0 || other.epoch == ledger_.epoch()) continue;
    if (other.epoch + 1 != ledger_.epoch()) continue;
    if (other.reader == 0) {
      return ResetStream(other.stream,
                         MakeError(Reason::kTakenOver, "a newer writer took the input over"));
    }
    agent::v1::Event event;
    event.mutable_warning()->set_reason("TAKEN_OVER");
    event.mutable_warning()->set_message("a newer writer took the input over");
    return other.stream->OnEvent(event);
  }
}

absl::StatusOr<Execution::Greeting> Execution::Attach(ExecutionStream* stream, const Roles& roles) {
  Attachment attachment;
  attachment.stream = stream;
  Greeting greeting;
  uint64_t live_from = 0;
  // Whole or not at all: one that is refused as reader must not have ended another's writing.
  if (roles.writer != nullptr) {
    SANDBROKER_RETURN_IF_ERROR(
        ledger_.CheckAttempt(roles.writer->holder(), roles.writer->attempt()));
  }
  if (roles.reader != nullptr) {
    SANDBROKER_RETURN_IF_ERROR(AttachReader(*roles.reader, &attachment, &live_from, &greeting.gap));
  }
  if (roles.writer != nullptr) {
    SANDBROKER_RETURN_IF_ERROR(AttachWriter(*roles.writer, &attachment));
  }
  attachments_.push_back(attachment);
  agent::v1::Ready& ready = greeting.ready;
  ready.set_execution_id(id_);
  ready.set_boot_id(shop_->boot_id);
  ready.set_state(ended() ? agent::v1::STATE_ENDED : agent::v1::STATE_RUNNING);
  ready.set_start(log_->start());
  ready.set_end(log_->end());
  ready.set_live_from(live_from);
  ready.set_input_accepted(ledger_.accepted());
  ready.set_writer_epoch(ledger_.epoch());
  ready.set_input_is_closed(ledger_.closed());
  ready.set_pid(pid_);
  if (ended()) on_changed_(*this);
  return greeting;
}

void Execution::Resume(ExecutionStream* stream) {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr) return;
  if (attachment->epoch != 0 && input_) stream->OnInputRoom(input_->room());
  // An attach moves the floor.
  ResumePipes();
  if (log_->HasUnsent(attachment->reader) || log_finished_) stream->OnOutputReady();
}

void Execution::OnInput(ExecutionStream* stream, uint64_t offset, std::string_view bytes) {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr) return;
  const bool over = end_.leader_ended();
  // A reader hears of the end in order; only one who came to write is told right away.
  if (over && attachment->reader != 0) return;
  if (over) {
    return ResetStream(stream, MakeError(Reason::kExecutionEnded, "the program has ended"));
  }
  const auto taken = ledger_.OnData(attachment->epoch, offset, bytes.size());
  if (!taken.ok()) return ResetStream(stream, taken.status());
  shop_->last_activity = Now();
  bytes.remove_prefix(*taken);
  if (bytes.empty() || !input_) {
    if (input_) stream->OnInputRoom(input_->room());
    return;
  }
  input_->Write(bytes);
}

void Execution::OnCloseInput(ExecutionStream* stream, uint64_t offset) {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr) return;
  const auto closes = ledger_.OnCloseInput(attachment->epoch, offset);
  if (!closes.ok()) return ResetStream(stream, closes.status());
  if (*closes && input_) input_->Finish();
}

void Execution::OnInputGone() {
  if (!ledger_.OnProgramClosed()) return;
  agent::v1::Event event;
  event.mutable_input_closed()->set_accepted(ledger_.accepted());
  const std::vector<Attachment> attached = attachments_;
  for (const Attachment& attachment : attached) {
    if (attachment.epoch != 0) attachment.stream->OnEvent(event);
  }
}

void Execution::OnLeave(ExecutionStream* stream, Leave how) {
  const auto it = std::find_if(attachments_.begin(), attachments_.end(),
                               [stream](const Attachment& a) { return a.stream == stream; });
  if (it == attachments_.end()) return;
  const Attachment left = *it;
  attachments_.erase(it);
  if (left.reader != 0) {
    if (how == Leave::kServed) served_at_ = Now();
    if (how == Leave::kOnPurpose) {
      log_->Detach(left.reader, Now());
    } else {
      log_->Lost(left.reader, Now());
    }
  }
  if (ended()) {
    on_changed_(*this);
    return;
  }
  ResumePipes();
  ArmTimer();
}

void Execution::ResetStream(ExecutionStream* stream, const absl::Status& why) {
  OnLeave(stream, Leave::kLost);
  std::optional<agent::v1::Ended> end = end_.ended();
  if (end) end->set_final_offset(log_->end());
  stream->OnReset(why, end ? &*end : nullptr);
}

}  // namespace sandbroker::guest
