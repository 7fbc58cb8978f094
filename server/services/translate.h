// From the broker's values to the messages of the contract. Pure.
#pragma once

#include "lib/broker/broker.h"
#include "lib/broker/core/types.h"
#include "sandbroker/agent/v1/link.pb.h"
#include "sandbroker/v1/execution.pb.h"
#include "sandbroker/v1/sandbox.pb.h"

namespace sandbroker::services {

void ToProto(Duration from, google::protobuf::Duration* to);
void ToProto(WallTime from, google::protobuf::Timestamp* to);
void ToProto(const broker::LeaseView& from, v1::Lease* to);
void ToProto(const broker::SandboxView& from, v1::Sandbox* to);
void ToProto(const broker::Acquired& from, v1::AcquireResponse* to);
void ToProto(const broker::PoolCapacity& from, v1::PoolCapacity* to);
void ToProto(const broker::RenewItem& from, v1::RenewResult* to);
void ToProto(const broker::ReleaseItem& from, v1::ReleaseResult* to);
void ToProto(const broker::WatchEvent& from, v1::WatchSandboxesResponse* to);
void ToProto(const agent::v1::Ready& from, v1::ExecReady* to);
// An end this server does not know, of a newer agent, is outcome_unknown.
void ToProto(const agent::v1::Ended& from, v1::ExecEnded* to);

}  // namespace sandbroker::services
