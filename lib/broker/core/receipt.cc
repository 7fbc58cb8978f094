#include "lib/broker/core/receipt.h"

#include <charconv>
#include <map>

#include "lib/base/crypto.h"
#include "lib/base/strings.h"

namespace sandbroker::broker {
namespace {

constexpr std::string_view kVersion = "1";

std::string_view StateName(Receipt::State state) {
  switch (state) {
    case Receipt::State::kPending:
      return "pending";
    case Receipt::State::kOpen:
      return "open";
    case Receipt::State::kBound:
      return "bound";
    case Receipt::State::kEnded:
      return "ended";
  }
  return "";
}

std::optional<Receipt::State> StateFromName(std::string_view name) {
  for (const auto state : {Receipt::State::kPending, Receipt::State::kOpen, Receipt::State::kBound,
                           Receipt::State::kEnded}) {
    if (StateName(state) == name) return state;
  }
  return std::nullopt;
}

absl::Status Unreadable(std::string_view why) {
  return absl::DataLossError(StrCat("receipt: ", why));
}

}  // namespace

std::string ReceiptKey(const Principal& who, const std::string& request_id) {
  return HexEncode(FieldList("receipt.1").Add(who.tenant).Add(request_id).Hash());
}

std::string RequestHash(const AcquireSpec& spec) {
  FieldList fields("acquire.1");
  fields.Add(spec.pool).Add(static_cast<int64_t>(spec.labels.size()));
  for (const auto& [key, value] : spec.labels) fields.Add(key).Add(value);
  fields.Add(static_cast<int64_t>(spec.env.size()));
  for (const EnvVar& var : spec.env) fields.Add(var.name).Add(var.value);
  fields.Add(spec.lease.ttl.count()).Add(spec.lease.max_lifetime.count());
  fields.Add(static_cast<int64_t>(spec.lease.keep_while_running));
  fields.Add(spec.min_remaining.count()).Add(static_cast<int64_t>(spec.fallback));
  fields.Add(spec.wait_bound.count());
  return HexEncode(fields.Hash());
}

std::string FormatReceipt(const Receipt& receipt) {
  return StrCat("version=", kVersion, "\nstate=", StateName(receipt.state),
                "\nbody=", receipt.body_hash, "\ntoken=", receipt.token, "\nowner=", receipt.owner,
                "\ndeadline=", receipt.deadline.time_since_epoch().count(), "\nuid=", receipt.uid,
                "\n");
}

absl::StatusOr<Receipt> ParseReceipt(std::string_view text) {
  std::map<std::string_view, std::string_view> fields;
  for (const std::string_view line : StrSplit(text, '\n')) {
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Unreadable("line without '='");
    fields[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (fields["version"] != kVersion) return Unreadable("unknown version");
  const auto state = StateFromName(fields["state"]);
  if (!state) return Unreadable("unknown state");
  int64_t deadline = 0;
  const std::string_view number = fields["deadline"];
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), deadline);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) {
    return Unreadable("deadline is not a number");
  }
  Receipt receipt{*state,
                  std::string(fields["body"]),
                  std::string(fields["token"]),
                  std::string(fields["owner"]),
                  WallTime(Duration(deadline)),
                  std::string(fields["uid"])};
  if (receipt.body_hash.size() != 64 || receipt.token.empty()) return Unreadable("field missing");
  if (receipt.state == Receipt::State::kBound && receipt.uid.empty()) {
    return Unreadable("bound without uid");
  }
  // A torn or edited record never passes for a whole one.
  if (FormatReceipt(receipt) != text) return Unreadable("not as it was written");
  return receipt;
}

Meeting Meet(const std::optional<Receipt>& found, const std::string& body_hash, WallTime now,
             bool owner_dead) {
  if (!found) return Meeting::kCreate;
  if (found->body_hash != body_hash) return Meeting::kReused;
  switch (found->state) {
    case Receipt::State::kBound:
      return Meeting::kRepeat;
    case Receipt::State::kEnded:
      return Meeting::kGone;
    case Receipt::State::kOpen:
      return Meeting::kTake;
    case Receipt::State::kPending:
      return owner_dead || now >= found->deadline ? Meeting::kTake : Meeting::kWait;
  }
  return Meeting::kWait;
}

Sweep DecideSweep(const Receipt& receipt, bool sandbox_alive, WallTime now, Duration retention) {
  if (receipt.state == Receipt::State::kBound) return sandbox_alive ? Sweep::kKeep : Sweep::kEnd;
  return receipt.deadline <= now - retention ? Sweep::kRemove : Sweep::kKeep;
}

}  // namespace sandbroker::broker
