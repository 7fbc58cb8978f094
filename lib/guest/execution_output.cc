// Execution: from the program's pipes into its log, and what becomes of pipes that stay open.
#include <boost/asio/post.hpp>
#include <utility>

#include "lib/guest/execution.h"

namespace sandbroker::guest {
namespace {

// Reads of one pipe in a row; then others get their turn.
constexpr int kReadsPerTurn = 8;

}  // namespace

void Execution::WatchPipe(const std::shared_ptr<OutputPipe>& pipe) {
  pipe->Wait([weak = weak_from_this(), pipe] {
    const auto self = weak.lock();
    if (self && !self->log_finished_) {
      self->ReadPipe(pipe);
    } else {
      pipe->DrainToNowhere();
    }
  });
}

void Execution::ReadPipe(const std::shared_ptr<OutputPipe>& pipe) {
  for (int i = 0; i < kReadsPerTurn && pipe->open(); ++i) {
    if (!ReadOnce(*pipe, Pace::kOfTheReader)) break;
  }
  NotifyReader();
  if (pipe->open() && !paused_) WatchPipe(pipe);
  Act();
}

// Answers whether another read is worth it now.
bool Execution::ReadOnce(OutputPipe& pipe, Pace pace) {
  const Time now = Now();
  const uint64_t room = pace == Pace::kFinal ? log_->FinalRoom(now, ReadBuffer::kSize)
                                             : log_->Room(now, ReadBuffer::kSize);
  if (room == 0) {
    PausePipes();
    return false;
  }
  const ssize_t n = pipe.Read(shop_->read_buffer.data(), room);
  if (n > 0) {
    shop_->read_buffer.MoveInto(log_.get(), pipe.number(), static_cast<size_t>(n));
    shop_->last_activity = now;
    return static_cast<uint64_t>(n) == room;
  }
  if (n == 0) ClosePipe(pipe);
  return false;
}

void Execution::PausePipes() {
  paused_ = true;
  end_.OnReading(Now(), false);
}

void Execution::ResumePipes() {
  if (!paused_ || log_finished_) return;
  if (log_->Room(Now(), ReadBuffer::kSize) == 0) return ArmTimer();
  paused_ = false;
  end_.OnReading(Now(), true);
  for (const auto& pipe : pipes_) {
    if (pipe && pipe->open()) WatchPipe(pipe);
  }
}

void Execution::ClosePipe(OutputPipe& pipe) {
  pipe.Close();
  for (const auto& other : pipes_) {
    if (other && other->open()) return;
  }
  end_.OnOutputClosed(Now());
}

// What is in the pipes still belongs to the execution; what comes later does not.
void Execution::CutOutput() {
  paused_ = false;
  for (const auto& pipe : pipes_) {
    while (pipe->open() && ReadOnce(*pipe, Pace::kFinal)) {
    }
  }
  unread_ = paused_;
  end_.OnOutputCut(Now());
  for (const auto& pipe : pipes_) {
    if (end_.terminating()) {
      pipe->Close();
    } else if (pipe->open()) {
      shop_->KeepDraining(pipe);
    }
  }
}

void Workshop::KeepDraining(const std::shared_ptr<OutputPipe>& pipe) {
  std::erase_if(drains, [](const auto& weak) { return weak.expired(); });
  if (drains.size() >= kMaxDrains) {
    if (const auto oldest = drains.front().lock()) oldest->Close();
    drains.pop_front();
  }
  drains.push_back(pipe);
  pipe->DrainToNowhere();
}

void Execution::NotifyReader() {
  for (const Attachment& attachment : attachments_) {
    if (attachment.reader != 0 && log_->HasUnsent(attachment.reader)) {
      return attachment.stream->OnOutputReady();
    }
  }
}

bool Execution::HasOutput(ExecutionStream* stream) const {
  const Attachment* attachment = Find(stream);
  return attachment != nullptr && log_->HasUnsent(attachment->reader);
}

std::optional<OutputLog::Piece> Execution::Next(ExecutionStream* stream, uint64_t max) {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr) return std::nullopt;
  auto piece = log_->Next(attachment->reader, max, Now());
  // Not from within the caller's own turn.
  if (piece && paused_) {
    boost::asio::post(shop_->io, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->ResumePipes();
    });
  }
  return piece;
}

std::optional<agent::v1::Ended> Execution::EndFor(ExecutionStream* stream) const {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr || !log_finished_ || log_->HasUnsent(attachment->reader)) {
    return std::nullopt;
  }
  agent::v1::Ended ended = *end_.ended();
  ended.set_final_offset(log_->end());
  ended.set_output_complete(!unread_ && !attachment->gap);
  return ended;
}

void Execution::OnAck(ExecutionStream* stream, uint64_t offset) {
  const Attachment* attachment = Find(stream);
  if (attachment == nullptr) return;
  if (absl::Status status = log_->Ack(attachment->reader, offset); !status.ok()) {
    return ResetStream(stream, status);
  }
  ResumePipes();
}

}  // namespace sandbroker::guest
