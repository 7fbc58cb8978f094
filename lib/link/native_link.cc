#include "lib/link/native_link.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <utility>

#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/link/link_errors.h"
#include "lib/link/native_stream.h"

namespace sandbroker::link {

using boost::system::error_code;

NativeLink::NativeLink(Loop& loop, LinkSettings settings, std::shared_ptr<ChunkPool> chunks,
                       const broker::DialTarget& target, std::unique_ptr<Transport> transport)
    : loop_(loop),
      settings_(settings),
      transport_(std::move(transport)),
      proof_(target, transport_->peer_certificate()),
      buffer_(std::move(chunks)),
      table_(wire::Side::kBroker, settings.max_streams),
      last_received_(loop.Now()) {
  info_.fingerprint = proof_.fingerprint();
}

NativeLink::~NativeLink() = default;

void NativeLink::Start(std::function<void(const absl::Status&)> on_lost,
                       std::function<void(absl::Status)> done) {
  on_lost_ = std::move(on_lost);
  handshake_done_ = std::move(done);
  transport_->Upgrade(User());
}

void NativeLink::OnUpgraded(const error_code& error) {
  if (error) return Lose(NoAgent("upgrade", error), true);
  Read();
}

void NativeLink::Read() {
  if (phase_ == Phase::kLost) return;
  const ReadBuffer::Room room = buffer_.Prepare(wire::kMaxMessage);
  if (room.data == nullptr) return Lose(Unreachable("message too large"), true);
  transport_->Read(boost::asio::buffer(room.data, room.size), User());
}

void NativeLink::OnRead(const error_code& error, size_t bytes) {
  if (error) return Lose(Broken("read", error), true);
  if (phase_ == Phase::kLost) return;
  last_received_ = loop_.Now();
  buffer_.Commit(bytes);
  if (transport_->message_done()) OnMessage();
  Read();
}

void NativeLink::OnMessage() {
  if (!transport_->binary()) return Lose(Unreachable("text message"), true);
  const auto frame = wire::ParseFrame(buffer_.message());
  if (!frame.ok()) return Lose(Unreachable(MessageOf(frame.status())), true);
  const absl::Status status = Dispatch(*frame);
  buffer_.Clear();
  if (!status.ok()) Lose(status, true);
}

absl::Status NativeLink::Dispatch(const wire::Frame& frame) {
  if (frame.stream != 0) {
    if (phase_ != Phase::kOpen) return Unreachable("stream frame before the handshake was over");
    return OnStreamFrame(frame);
  }
  if (frame.kind == wire::Kind::kReset) {
    agent::Reset reset;
    if (!reset.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
      return BadProto(frame);
    }
    return Unreachable(StrCat("refused by the agent: ", reset.reason(), " ", reset.message()));
  }
  if (frame.kind != wire::Kind::kEvent) {
    return Unreachable(StrCat(wire::KindName(frame.kind), " on stream 0"));
  }
  return OnControl(frame.payload);
}

absl::Status NativeLink::OnControl(std::string_view payload) {
  agent::Control control;
  if (!control.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return Unreachable("control message can't be read");
  }
  if (phase_ == Phase::kHello) {
    if (!control.has_agent_hello()) return Unreachable("the first message is not a hello");
    return OnHello(control.agent_hello());
  }
  if (phase_ == Phase::kProof) {
    if (!control.has_agent_proof()) return Unreachable("the second message is not a proof");
    return OnProof(control.agent_proof());
  }
  if (control.has_heartbeat() && control.heartbeat().reply_wanted()) {
    agent::Control reply;
    reply.mutable_heartbeat()->set_sequence(control.heartbeat().sequence());
    SendControl(reply);
  } else if (control.has_bound()) {
    OnAnswer(control.bound().sequence(), agent::Report());
  } else if (control.has_report()) {
    OnAnswer(control.report().sequence(), control.report());
  }
  return absl::OkStatus();  // what a newer agent adds is ignored
}

absl::Status NativeLink::OnHello(const agent::AgentHello& hello) {
  if (hello.version_min() > wire::kVersion || hello.version_max() < wire::kVersion) {
    return MakeError(Reason::kUnsupported,
                     StrCat("the agent speaks link versions ", hello.version_min(), " to ",
                            hello.version_max(), ", this broker ", wire::kVersion));
  }
  info_.boot_id = hello.boot_id();
  info_.features.assign(hello.features().begin(), hello.features().end());
  info_.limits = hello.limits();
  info_.agent_version = hello.agent_version();
  agent::Control control;
  agent::BrokerHello& answer = *control.mutable_broker_hello();
  SANDBROKER_RETURN_IF_ERROR(proof_.Prove(hello, &answer));
  answer.set_version(wire::kVersion);
  answer.set_heartbeat_interval_ns(settings_.heartbeat_interval.count());
  answer.set_broker_version(SANDBROKER_VERSION);
  phase_ = Phase::kProof;
  SendControl(control);
  return absl::OkStatus();
}

absl::Status NativeLink::OnProof(const agent::AgentProof& proof) {
  const absl::Status status = proof_.Check(proof);
  if (!status.ok()) return Unreachable(MessageOf(status));
  phase_ = Phase::kOpen;
  Beat();
  WatchSilence();
  std::exchange(handshake_done_, nullptr)(absl::OkStatus());
  return absl::OkStatus();
}

void NativeLink::OnAnswer(uint64_t sequence, absl::StatusOr<agent::Report> report) {
  const auto it = answers_.find(sequence);
  if (it == answers_.end()) return;
  const auto done = std::move(it->second);
  answers_.erase(it);
  done(std::move(report));
}

absl::Status NativeLink::OnStreamFrame(const wire::Frame& frame) {
  const auto verdict = table_.OnFrame(frame);
  if (!verdict.ok()) return Unreachable(MessageOf(verdict.status()));
  const auto it = streams_.find(frame.stream);
  if (*verdict == wire::StreamTable::Verdict::kIgnore || it == streams_.end()) {
    return absl::OkStatus();
  }
  NativeStream* stream = it->second;
  broker::AgentStreamHandler* handler = stream->handler();
  const auto parse = [&frame](auto* message) {
    return message->ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  };
  switch (frame.kind) {
    case wire::Kind::kData: {
      const auto data = wire::ParseData(frame.payload);
      if (!data.ok()) return Unreachable(MessageOf(data.status()));
      if (data->fd != 1 && data->fd != 2) return Unreachable(StrCat("DATA of fd ", int{data->fd}));
      const auto [offset, fd] = std::pair(data->offset, int{data->fd});
      handler->OnData(offset, fd, buffer_.TakeFrom(wire::kHeaderSize + wire::kDataAddressSize));
      return absl::OkStatus();
    }
    case wire::Kind::kEvent: {
      agent::Event event;
      if (!parse(&event)) return BadProto(frame);
      handler->OnEvent(event);
      return absl::OkStatus();
    }
    case wire::Kind::kCredit:
      handler->OnInputRoom();
      return absl::OkStatus();
    case wire::Kind::kEnd: {
      agent::Ended ended;
      if (!parse(&ended)) return BadProto(frame);
      stream->MarkOver();
      handler->OnEnd(ended);
      return absl::OkStatus();
    }
    case wire::Kind::kReset: {
      agent::Reset reset;
      if (!parse(&reset)) return BadProto(frame);
      stream->MarkOver();
      handler->OnReset(reset);
      return absl::OkStatus();
    }
    case wire::Kind::kOpen:
    case wire::Kind::kAck:
      break;  // the table has refused them
  }
  return absl::OkStatus();
}

std::unique_ptr<broker::AgentStream> NativeLink::Open(const agent::Open& open, uint64_t window,
                                                      broker::AgentStreamHandler* handler) {
  const uint32_t id = table_.OpenStream();
  auto stream = std::make_unique<NativeStream>(shared_from_this(), id, window, handler);
  streams_.emplace(id, stream.get());
  table_.GrantTotal(id, window);
  // Serialized messages of one type that follow each other are merged by whoever parses them: no
  // copy of the start is made for the sake of one number, and one frame is sent instead of two.
  agent::Open credit;
  credit.set_credit(window);
  std::string payload = open.SerializeAsString();
  credit.AppendToString(&payload);
  PushControl(wire::EncodeFrame(id, wire::Kind::kOpen, payload));
  return stream;
}

void NativeLink::CloseStream(uint32_t stream) {
  streams_.erase(stream);
  queue_.Remove(stream);
  table_.CloseStream(stream);
}

void NativeLink::Bind(const agent::Bind& bind, std::function<void(absl::Status)> done) {
  if (phase_ != Phase::kOpen) return done(Unreachable("not open"));
  agent::Control control;
  *control.mutable_bind() = bind;
  control.mutable_bind()->set_sequence(next_sequence_);
  answers_[next_sequence_++] = [done = std::move(done)](absl::StatusOr<agent::Report> answer) {
    done(answer.status());
  };
  SendControl(control);
}

void NativeLink::Query(std::function<void(absl::StatusOr<agent::Report>)> done) {
  if (phase_ != Phase::kOpen) return done(Unreachable("not open"));
  agent::Control control;
  control.mutable_query()->set_sequence(next_sequence_);
  answers_[next_sequence_++] = std::move(done);
  SendControl(control);
}

void NativeLink::SetBackstop(Time until) {
  backstop_ = until;
  if (phase_ == Phase::kOpen) Beat();
}

void NativeLink::Beat() {
  agent::Control control;
  agent::Heartbeat& beat = *control.mutable_heartbeat();
  beat.set_sequence(++beats_);
  beat.set_reply_wanted(true);
  if (backstop_ != kNever) {
    beat.set_backstop_ns(std::max<int64_t>((backstop_ - loop_.Now()).count(), 1));
  }
  SendControl(control);
  beat_timer_ = loop_.After(settings_.heartbeat_interval, [this] { Beat(); });
}

void NativeLink::WatchSilence() {
  const Duration bound = 3 * settings_.heartbeat_interval;
  const Duration left = last_received_ + bound - loop_.Now();
  if (left <= Duration(0)) {
    ErrorDetail detail;
    detail.reason = Reason::kAgentUnreachable;
    detail.metadata["silent"] = "1";  // tells a silent agent from a dropped connection
    return Lose(MakeError(std::move(detail), "agent link: silent for three heartbeats"), true);
  }
  silence_timer_ = loop_.After(left, [this] { WatchSilence(); });
}

void NativeLink::SendControl(const agent::Control& control) {
  PushControl(wire::EncodeFrame(0, wire::Kind::kEvent, control.SerializeAsString()));
}

void NativeLink::PushControl(std::string frame) {
  if (phase_ == Phase::kLost || overflowed_) return;
  // A frame of any size goes into a queue that is not over its bound.
  if (queue_.control_bytes() > settings_.max_control_bytes) return Overflow();
  queue_.PushControl(std::move(frame));
  Write();
}

// Not at once: losing the link tells the streams, one of which may be calling.
void NativeLink::Overflow() {
  overflowed_ = true;
  loop_.Post([self = shared_from_this()] {
    self->Lose(MakeError(Reason::kCapacity,
                         StrCat("agent link: more than ", self->settings_.max_control_bytes,
                                " bytes wait for an agent that does not read")),
               true);
  });
}

void NativeLink::MarkReady(uint32_t stream) {
  if (phase_ == Phase::kLost) return;
  queue_.MarkReady(stream);
  Write();
}

void NativeLink::Write() {
  if (writing_ || phase_ == Phase::kLost) return;
  if (auto control = queue_.PopControl()) {
    control_write_ = *std::move(control);
    writing_ = true;
    return transport_->Write({boost::asio::buffer(control_write_)}, User());
  }
  while (const auto stream = queue_.NextStream()) {
    if (!WriteData(*stream)) continue;
    writing_ = true;
    return transport_->Write(
        {boost::asio::buffer(data_write_.header),
         boost::asio::buffer(data_write_.bytes.data(), data_write_.bytes.size())},
        User());
  }
}

void NativeLink::OnWritten(const error_code& error) {
  writing_ = false;
  if (error) return Lose(Broken("write", error), true);
  Write();
}

bool NativeLink::WriteData(uint32_t id) {
  const auto it = streams_.find(id);
  NativeStream::Piece piece;
  if (it == streams_.end() || !it->second->NextPiece(&piece)) return false;
  data_write_.header = wire::EncodeDataHeader(id, piece.offset, 0);
  table_.OnDataSent(id, piece.bytes.size());
  data_write_.bytes = std::move(piece.bytes);
  if (it->second->has_pieces()) {
    queue_.MarkReady(id);
  } else if (std::string close = it->second->TakeCloseInput(); !close.empty()) {
    queue_.PushControl(std::move(close));
  }
  return true;
}

void NativeLink::Close(const absl::Status& why) { Lose(why, false); }

void NativeLink::Lose(const absl::Status& why, bool tell) {
  if (phase_ == Phase::kLost) return;
  const auto self = shared_from_this();
  phase_ = Phase::kLost;
  beat_timer_.reset();
  silence_timer_.reset();
  transport_->Close();
  if (handshake_done_) return std::exchange(handshake_done_, nullptr)(why);
  for (auto& [sequence, done] : std::exchange(answers_, {})) done(why);
  // A handler may destroy its own stream or others'.
  while (!streams_.empty()) {
    NativeStream* stream = streams_.begin()->second;
    streams_.erase(streams_.begin());
    stream->MarkOver();
    stream->handler()->OnLinkLost(why);
  }
  const auto on_lost = std::exchange(on_lost_, nullptr);
  if (tell && on_lost) on_lost(why);
}

}  // namespace sandbroker::link
