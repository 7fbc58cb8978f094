#include "lib/guest/link.h"

#include <algorithm>
#include <utility>

#include "lib/base/crypto.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/guest/link_stream.h"
#include "lib/wire/handshake.h"

namespace sandbroker::guest {
namespace {

constexpr size_t kMaxStreams = 8192;
// A peer that does not read what it asked for is not read from either.
constexpr size_t kMaxControlBytes = 1024 * 1024;
constexpr Duration kDefaultInterval = std::chrono::seconds(10);
constexpr Duration kMinInterval = std::chrono::milliseconds(50);
constexpr int kSilentIntervals = 3;
constexpr Duration kCloseBound = std::chrono::seconds(1);

}  // namespace

Link::Link(std::shared_ptr<LinkSocket> socket, LinkOwner* owner, Duration handshake_bound)
    : owner_(owner),
      handshake_bound_(handshake_bound),
      socket_(std::move(socket)),
      since_(Now()),
      table_(wire::Side::kAgent, kMaxStreams),
      timer_(owner->shop().io) {}

Link::~Link() { socket_->Abandon(); }

void Link::Start() {
  Arm(SaturatingAdd(Now(), handshake_bound_), &Link::OnHandshakeBound);
  socket_->Start(this);
}

void Link::Arm(Time at, void (Link::*then)()) {
  timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(at));
  timer_.async_wait([weak = weak_from_this(), then](boost::system::error_code error) {
    const auto self = weak.lock();
    if (!error && self) ((*self).*then)();
  });
}

void Link::OnHandshakeBound() {
  if (state_ == State::kUpgrade) return EndSoon();
  Refuse(MakeError(Reason::kUnauthenticated, "the handshake took too long"));
}

void Link::EndSoon() {
  state_ = State::kClosing;
  Arm(SaturatingAdd(Now(), kCloseBound), &Link::Drop);
  socket_->CloseAfterWrites();
}

void Link::Drop() {
  socket_->Abandon();
  OnClosed();
}

void Link::OnUpgraded() {
  state_ = State::kHello;
  agent::v1::Control control;
  *control.mutable_agent_hello() = owner_->Hello();
  agent_nonce_ = RandomBytes(wire::kNonceSize);
  boot_id_ = control.agent_hello().boot_id();
  control.mutable_agent_hello()->set_nonce(agent_nonce_);
  SendControl(control);
}

void Link::Refuse(const absl::Status& why) {
  if (state_ == State::kClosing) return;
  LeaveAll();
  SendReset(0, why, nullptr);
  EndSoon();
}

void Link::OnClosed() {
  state_ = State::kClosing;
  timer_.cancel();
  LeaveAll();
  owner_->OnLinkClosed(this);
}

void Link::LeaveAll() {
  // A stream that leaves may make others move.
  auto streams = std::move(streams_);
  streams_.clear();
  for (auto& [id, stream] : streams) {
    table_.CloseStream(id);
    stream->execution->OnLeave(stream.get(), Execution::Leave::kLost);
  }
}

bool Link::OnMessage(std::string_view message) {
  if (state_ == State::kClosing) return false;
  auto frame = wire::ParseFrame(message);
  absl::Status status = frame.ok() ? OnFrame(*frame) : frame.status();
  if (!status.ok()) {
    Refuse(status);
    return false;
  }
  reading_paused_ = queue_.control_bytes() > kMaxControlBytes;
  return !reading_paused_;
}

absl::Status Link::OnFrame(const wire::Frame& frame) {
  if (frame.stream == 0) {
    if (frame.kind == wire::Kind::kEvent) return OnControl(frame);
    if (frame.kind == wire::Kind::kReset) {
      EndSoon();
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(StrCat(wire::KindName(frame.kind), " on stream 0"));
  }
  if (state_ != State::kOpen) {
    return MakeError(Reason::kUnauthenticated, "a stream before the handshake is done");
  }
  const auto verdict = table_.OnFrame(frame);
  if (!verdict.ok()) return verdict.status();
  if (*verdict == wire::StreamTable::Verdict::kIgnore) return absl::OkStatus();
  if (frame.kind == wire::Kind::kOpen) return OnOpen(frame);
  const auto it = streams_.find(frame.stream);
  return it == streams_.end() ? absl::OkStatus() : OnStreamFrame(frame, *it->second);
}

absl::Status Link::OnControl(const wire::Frame& frame) {
  agent::v1::Control control;
  if (!control.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
    return absl::InvalidArgumentError("EVENT on stream 0 does not parse");
  }
  if (state_ == State::kHello) {
    if (control.has_broker_hello()) return OnHello(control.broker_hello());
    return MakeError(Reason::kUnauthenticated, "expected broker_hello first");
  }
  if (control.has_heartbeat()) {
    OnHeartbeat(control.heartbeat());
  } else if (control.has_bind()) {
    SANDBROKER_RETURN_IF_ERROR(ValidateEnv(control.bind().env(), "env"));
    owner_->shop().environment.Add(control.bind().env());
    agent::v1::Control reply;
    reply.mutable_bound()->set_sequence(control.bind().sequence());
    SendControl(reply);
  } else if (control.has_query()) {
    agent::v1::Control reply;
    *reply.mutable_report() = owner_->MakeReport();
    reply.mutable_report()->set_sequence(control.query().sequence());
    SendControl(reply);
  } else if (control.kind_case() != agent::v1::Control::KIND_NOT_SET) {
    return absl::InvalidArgumentError("control message of the wrong side or at the wrong time");
  }
  return absl::OkStatus();
}

absl::Status Link::OnHello(const agent::v1::BrokerHello& hello) {
  if (hello.version() != wire::kVersion) {
    return MakeError(
        Reason::kUnsupported,
        StrCat("link versions do not overlap: the agent speaks ", wire::kVersion, " to ",
               wire::kVersion, ", the broker ", hello.version(), " to ", hello.version()));
  }
  auto proof = owner_->proof().Answer(hello, agent_nonce_, boot_id_);
  if (!proof.ok()) return proof.status();
  agent::v1::Control control;
  *control.mutable_agent_proof() = *std::move(proof);
  state_ = State::kOpen;
  SendControl(control);
  interval_ = hello.heartbeat_interval_ns() > 0
                  ? std::max(Duration(hello.heartbeat_interval_ns()), kMinInterval)
                  : kDefaultInterval;
  last_life_ = Now();
  next_beat_ = SaturatingAdd(last_life_, interval_);
  Beat();
  return absl::OkStatus();
}

void Link::OnHeartbeat(const agent::v1::Heartbeat& heartbeat) {
  if (heartbeat.backstop_ns() > 0) owner_->SetBackstop(Duration(heartbeat.backstop_ns()));
  if (!heartbeat.reply_wanted()) return;
  agent::v1::Control reply;
  reply.mutable_heartbeat()->set_sequence(heartbeat.sequence());
  SendControl(reply);
}

void Link::Beat() {
  if (state_ != State::kOpen) return;
  const Time now = Now();
  const Time dead_at = SaturatingAdd(last_life_, interval_ * kSilentIntervals);
  if (now >= dead_at) {
    return Refuse(
        MakeError(Reason::kAgentUnreachable,
                  StrCat("nothing was heard for ", kSilentIntervals, " heartbeat intervals")));
  }
  if (now >= next_beat_) {
    next_beat_ = SaturatingAdd(now, interval_);
    agent::v1::Control control;
    control.mutable_heartbeat()->set_sequence(++beat_sequence_);
    SendControl(control);
  }
  Arm(std::min(next_beat_, dead_at), &Link::Beat);
}

absl::Status Link::OnOpen(const wire::Frame& frame) {
  agent::v1::Open open;
  if (!open.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
    return absl::InvalidArgumentError("OPEN does not parse");
  }
  const uint32_t id = frame.stream;
  table_.AllowSending(id, open.credit());
  auto stream = std::make_unique<Stream>(this, id);
  auto opened = owner_->OpenExecution(open, stream.get());
  if (!opened.ok()) {
    table_.CloseStream(id);
    SendReset(id, opened.status(), nullptr);
    return absl::OkStatus();
  }
  const auto execution = stream->execution = std::move(opened->execution);
  Stream* const attached = streams_.emplace(id, std::move(stream)).first->second.get();
  agent::v1::Event event;
  *event.mutable_ready() = std::move(opened->greeting.ready);
  attached->OnEvent(event);
  if (opened->greeting.gap) {
    *event.mutable_gap() = *opened->greeting.gap;
    attached->OnEvent(event);
  }
  execution->Resume(attached);
  return absl::OkStatus();
}

absl::Status Link::OnStreamFrame(const wire::Frame& frame, Stream& stream) {
  // The execution may let go of the stream meanwhile, and it of the execution.
  const auto execution = stream.execution;
  switch (frame.kind) {
    case wire::Kind::kData: {
      const auto data = wire::ParseData(frame.payload);
      if (data->fd != 0) return absl::InvalidArgumentError("DATA for an fd other than 0");
      execution->OnInput(&stream, data->offset, data->bytes);
      return absl::OkStatus();
    }
    case wire::Kind::kCredit:
      stream.OnOutputReady();
      return absl::OkStatus();
    case wire::Kind::kAck:
      execution->OnAck(&stream, *wire::ParseNumber(frame.payload));
      return absl::OkStatus();
    case wire::Kind::kReset:
      execution->OnLeave(&stream, Execution::Leave::kLost);
      ForgetStream(frame.stream);
      return absl::OkStatus();
    case wire::Kind::kEvent:
      return OnCommand(frame.payload, stream);
    case wire::Kind::kOpen:
    case wire::Kind::kEnd:
      break;
  }
  return absl::InvalidArgumentError("frame of the wrong side");
}

absl::Status Link::OnCommand(std::string_view payload, Stream& stream) {
  agent::v1::Command command;
  if (!command.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::InvalidArgumentError("EVENT does not parse");
  }
  const auto execution = stream.execution;
  if (command.has_signal()) {
    if (command.signal().number() < 1 || command.signal().number() > 64) {
      return absl::InvalidArgumentError(
          StrCat("signal ", command.signal().number(), " is not within 1 to 64"));
    }
    execution->OnSignal(command.signal().number());
  } else if (command.has_cancel()) {
    execution->OnCancel(command.cancel());
  } else if (command.has_close_input()) {
    execution->OnCloseInput(&stream, command.close_input().offset());
  } else if (command.has_detach()) {
    execution->OnLeave(&stream, Execution::Leave::kOnPurpose);
    ForgetStream(stream.id);
  }
  return absl::OkStatus();
}

std::optional<Outgoing> Link::NextOutgoing() {
  if (auto control = queue_.PopControl()) {
    if (reading_paused_ && queue_.control_bytes() <= kMaxControlBytes) {
      reading_paused_ = false;
      socket_->ResumeReading();
    }
    return Outgoing(*std::move(control));
  }
  while (const auto id = queue_.NextStream()) {
    const auto it = streams_.find(*id);
    if (it == streams_.end()) continue;
    if (auto outgoing = NextOf(*it->second)) return outgoing;
  }
  return std::nullopt;
}

// One DATA, or the end once there is no more.
std::optional<Outgoing> Link::NextOf(Stream& stream) {
  const uint32_t id = stream.id;
  const uint64_t room = std::min<uint64_t>(table_.SendRoom(id), ReadBuffer::kSize);
  if (auto piece = stream.execution->Next(&stream, room)) {
    table_.OnDataSent(id, piece->bytes.size());
    if (stream.execution->HasOutput(&stream)) {
      if (table_.SendRoom(id) != 0) queue_.MarkReady(id);
    } else if (stream.execution->ended()) {
      queue_.MarkReady(id);
    }
    return Outgoing(
        DataOut{wire::EncodeDataHeader(id, piece->offset, piece->fd), std::move(piece->bytes)});
  }
  const auto ended = stream.execution->EndFor(&stream);
  if (!ended) return std::nullopt;
  std::string frame = wire::EncodeFrame(id, wire::Kind::kEnd, ended->SerializeAsString());
  const auto execution = stream.execution;
  execution->OnLeave(&stream, Execution::Leave::kServed);
  ForgetStream(id);
  return Outgoing(std::move(frame));
}

void Link::ForgetStream(uint32_t id) {
  table_.CloseStream(id);
  queue_.Remove(id);
  streams_.erase(id);
}

void Link::SendControl(const agent::v1::Control& control) {
  Push(wire::EncodeFrame(0, wire::Kind::kEvent, control.SerializeAsString()));
}

void Link::Push(std::string frame) {
  if (state_ == State::kClosing) return;
  queue_.PushControl(std::move(frame));
  socket_->Kick();
}

void Link::SendReset(uint32_t stream, const absl::Status& why, const agent::v1::Ended* ended) {
  agent::v1::Reset reset;
  reset.set_code(static_cast<uint32_t>(why.code()));
  reset.set_reason(std::string(ReasonName(ReasonOf(why))));
  reset.set_message(std::string(MessageOf(why)));
  if (ended != nullptr) *reset.mutable_ended() = *ended;
  Push(wire::EncodeFrame(stream, wire::Kind::kReset, reset.SerializeAsString()));
}

}  // namespace sandbroker::guest
