#include "server/services/translate.h"

#include "lib/base/status.h"
#include "lib/rpc/status.h"

namespace sandbroker::services {
namespace {

// Words of agents and controllers are theirs: what goes into a string field must be UTF-8.
constexpr size_t kMaxWords = 4096;

std::string Words(std::string_view text) { return rpc::PublicText(text, kMaxWords); }

v1::SandboxState StateOf(broker::SandboxState state) {
  switch (state) {
    case broker::SandboxState::kStarting:
      return v1::SANDBOX_STATE_STARTING;
    case broker::SandboxState::kReady:
      return v1::SANDBOX_STATE_READY;
    case broker::SandboxState::kUnreachable:
      return v1::SANDBOX_STATE_UNREACHABLE;
    case broker::SandboxState::kReleasing:
      return v1::SANDBOX_STATE_RELEASING;
  }
  return v1::SANDBOX_STATE_UNSPECIFIED;
}

v1::AcquireSource SourceOf(broker::Source source) {
  switch (source) {
    case broker::Source::kWarm:
      return v1::ACQUIRE_SOURCE_WARM;
    case broker::Source::kCold:
      return v1::ACQUIRE_SOURCE_COLD;
    case broker::Source::kAdopted:
      return v1::ACQUIRE_SOURCE_ADOPTED;
    case broker::Source::kRepeated:
      return v1::ACQUIRE_SOURCE_REPEATED;
  }
  return v1::ACQUIRE_SOURCE_UNSPECIFIED;
}

void StartFailedToProto(const agent::v1::StartFailed& from, v1::StartFailed* to) {
  to->set_error_number(from.error_number());
  to->set_step(Words(from.step()));
  to->set_message(Words(from.message()));
}

void ReasonToProto(const agent::v1::Ended& from, v1::ExecEnded* to) {
  using Agent = agent::v1::Ended;
  switch (from.reason_case()) {
    case Agent::kExited:
      return to->mutable_exited()->set_code(from.exited().code());
    case Agent::kSignaled:
      to->mutable_signaled()->set_number(from.signaled().number());
      return to->mutable_signaled()->set_core_dumped(from.signaled().core_dumped());
    case Agent::kTimedOut:
      return to->mutable_timed_out()->set_last_signal(from.timed_out().last_signal());
    case Agent::kOutOfMemory:
      return static_cast<void>(to->mutable_out_of_memory());
    case Agent::kCancelled:
      return to->mutable_cancelled()->set_by(Words(from.cancelled().by()));
    case Agent::kStartFailed:
      return StartFailedToProto(from.start_failed(), to->mutable_start_failed());
    case Agent::kLeaseExpired:
      return static_cast<void>(to->mutable_lease_expired());
    case Agent::kAgentLost:
      return to->mutable_agent_lost()->set_detail(Words(from.agent_lost().detail()));
    case Agent::kSandboxGone:
      return to->mutable_sandbox_gone()->set_cause(Words(from.sandbox_gone().cause()));
    case Agent::kOutcomeUnknown:
      return to->mutable_outcome_unknown()->set_detail(Words(from.outcome_unknown().detail()));
    case Agent::REASON_NOT_SET:
      return to->mutable_outcome_unknown()->set_detail("the agent named an end unknown here");
  }
}

}  // namespace

void ToProto(Duration from, google::protobuf::Duration* to) {
  to->set_seconds(from.count() / 1'000'000'000);
  to->set_nanos(static_cast<int32_t>(from.count() % 1'000'000'000));
}

void ToProto(WallTime from, google::protobuf::Timestamp* to) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(from);
  to->set_seconds(seconds.time_since_epoch().count());
  to->set_nanos(static_cast<int32_t>((from - seconds).count()));
}

void ToProto(const broker::LeaseView& from, v1::Lease* to) {
  ToProto(from.expire, to->mutable_expire_time());
  ToProto(from.remaining, to->mutable_remaining());
  ToProto(from.spec.ttl, to->mutable_spec()->mutable_ttl());
  ToProto(from.spec.max_lifetime, to->mutable_spec()->mutable_max_lifetime());
  to->mutable_spec()->set_keep_while_running(from.spec.keep_while_running);
}

void ToProto(const broker::SandboxView& from, v1::Sandbox* to) {
  to->set_sandbox_id(from.handle);
  to->set_kind(v1::SANDBOX_KIND_TASK);
  to->set_state(StateOf(from.state));
  to->set_pool(from.pool);
  to->mutable_labels()->insert(from.labels.begin(), from.labels.end());
  ToProto(from.lease, to->mutable_lease());
  to->set_incarnation(from.incarnation);
  ToProto(from.acquired, to->mutable_acquire_time());
  to->set_not_ready_reason(Words(from.not_ready_reason));
}

void ToProto(const broker::Acquired& from, v1::AcquireResponse* to) {
  ToProto(from.sandbox, to->mutable_sandbox());
  to->set_source(SourceOf(from.source));
  ToProto(from.timing.queued, to->mutable_timing()->mutable_queued());
  ToProto(from.timing.started, to->mutable_timing()->mutable_started());
  ToProto(from.timing.bound, to->mutable_timing()->mutable_bound());
  ToProto(from.timing.total, to->mutable_timing()->mutable_total());
}

void ToProto(const broker::PoolCapacity& from, v1::PoolCapacity* to) {
  to->set_pool(from.pool);
  to->set_wanted(from.wanted);
  to->set_ready(from.ready);
  to->set_pending(from.pending);
  to->set_claimed(from.claimed);
  to->set_waiting_callers(from.waiting_callers);
  to->set_limit(from.limit);
  to->set_last_error(Words(from.last_error));
  to->mutable_age();
}

void ToProto(const broker::RenewItem& from, v1::RenewResult* to) {
  to->set_sandbox_id(from.handle);
  if (from.status.ok()) return ToProto(from.lease, to->mutable_lease());
  const absl::Status shown = rpc::PublicStatus(from.status, "RenewLeases");
  to->set_code(static_cast<int32_t>(shown.code()));
  to->set_reason(std::string(ReasonName(ReasonOf(shown))));
  to->set_message(Words(MessageOf(shown)));
}

void ToProto(const broker::ReleaseItem& from, v1::ReleaseResult* to) {
  to->set_sandbox_id(from.handle);
  const absl::Status shown = rpc::PublicStatus(from.status, "ReleaseTaskSandboxes");
  to->set_code(static_cast<int32_t>(shown.code()));
  to->set_message(Words(MessageOf(shown)));
}

void ToProto(const broker::WatchEvent& from, v1::WatchSandboxesResponse* to) {
  switch (from.kind) {
    case broker::WatchEvent::Kind::kAdded:
      return ToProto(from.sandbox, to->mutable_added());
    case broker::WatchEvent::Kind::kModified:
      return ToProto(from.sandbox, to->mutable_modified());
    case broker::WatchEvent::Kind::kRemoved: {
      v1::SandboxRemoved& removed = *to->mutable_removed();
      removed.set_sandbox_id(from.removal.handle);
      removed.set_reason(std::string(ReasonName(from.removal.reason)));
      removed.set_cause(Words(from.removal.cause));
      return;
    }
    case broker::WatchEvent::Kind::kSynced:
      to->mutable_synced();
      return;
  }
}

void ToProto(const agent::v1::Ready& from, v1::ExecReady* to) {
  to->set_execution_id(from.execution_id());
  to->set_incarnation(from.boot_id());
  to->set_repeated(from.repeated_start());
  to->set_start_offset(from.start());
  to->set_end_offset(from.end());
  to->set_live_from(from.live_from());
  to->set_input_accepted(from.input_accepted());
  to->set_writer_epoch(from.writer_epoch());
  to->set_input_closed(from.input_is_closed());
  to->set_input_limit(from.input_accepted());
}

void ToProto(const agent::v1::Ended& from, v1::ExecEnded* to) {
  ReasonToProto(from, to);
  if (from.duration_ns() > 0) ToProto(Duration(from.duration_ns()), to->mutable_duration());
  to->set_final_offset(from.final_offset());
  to->set_output_complete(from.output_complete());
  to->set_output_open(from.output_open());
}

}  // namespace sandbroker::services
