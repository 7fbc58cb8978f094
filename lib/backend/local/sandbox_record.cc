#include "lib/backend/local/sandbox_record.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <limits>

#include "lib/base/crypto.h"
#include "lib/base/ids.h"
#include "lib/base/strings.h"
#include "lib/wire/handshake.h"

namespace sandbroker::local {
namespace {

namespace json = boost::json;
using broker::RecordPhase;

constexpr int64_t kVersion = 1;
constexpr size_t kMaxText = 1024;
// Wall times are within 1970 to 2200: sums with a lease's times can't overflow.
constexpr int64_t kMaxWallNs = 7'258'118'400'000'000'000;

std::string_view PhaseName(RecordPhase phase) {
  return phase == RecordPhase::kClaimed ? "claimed"
         : phase == RecordPhase::kWarm  ? "warm"
                                        : "starting";
}

json::string_view ToJson(std::string_view text) { return {text.data(), text.size()}; }

json::object EncodeClaim(const broker::Claim& claim) {
  json::object labels;
  for (const auto& [key, value] : claim.labels) labels[ToJson(key)] = ToJson(value);
  return {{"tenant", claim.tenant},
          {"labels", std::move(labels)},
          {"ttl_ns", claim.lease.ttl.count()},
          {"max_lifetime_ns", claim.lease.max_lifetime.count()},
          {"keep_while_running", claim.lease.keep_while_running},
          {"acquired_ns", claim.acquired.time_since_epoch().count()},
          {"lease_until_ns", claim.until.time_since_epoch().count()},
          {"outage_ttl", claim.outage_ttl},
          {"receipt", claim.receipt},
          {"token", claim.token}};
}

// Reads members of one object; the first thing that is wrong is kept, and the rest reads as empty.
class Reader {
 public:
  Reader(const json::object& object, absl::Status* wrong) : object_(object), wrong_(wrong) {}

  std::string Text(const char* key, size_t limit = kMaxText) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr || !value->is_string() || value->get_string().size() > limit) {
      return Wrong<std::string>(key);
    }
    return {value->get_string().data(), value->get_string().size()};
  }
  int64_t Number(const char* key, int64_t low, int64_t high) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr || !value->is_int64() || value->get_int64() < low ||
        value->get_int64() > high) {
      return Wrong<int64_t>(key);
    }
    return value->get_int64();
  }
  bool Flag(const char* key) {
    const json::value* value = object_.if_contains(key);
    return value != nullptr && value->is_bool() ? value->get_bool() : Wrong<bool>(key);
  }
  const json::object* Object(const char* key) {
    const json::value* value = object_.if_contains(key);
    return value != nullptr && value->is_object() ? &value->get_object()
                                                  : Wrong<const json::object*>(key);
  }
  template <class T>
  T Wrong(const char* key) {
    if (wrong_->ok())
      *wrong_ = absl::DataLossError(StrCat("state file: bad or missing '", key, "'"));
    return T();
  }

 private:
  const json::object& object_;
  absl::Status* const wrong_;
};

broker::Claim ReadClaim(const json::object& object, absl::Status* wrong) {
  Reader reader(object, wrong);
  broker::Claim claim;
  claim.tenant = reader.Text("tenant");
  if (const json::object* labels = reader.Object("labels")) {
    Reader values(*labels, wrong);
    for (const auto& label : *labels) {
      const std::string key(label.key().data(), label.key().size());
      claim.labels[key] = values.Text(key.c_str());
    }
    // Also what follows a NUL in a key, which the line above does not see.
    if (!ValidateLabels(claim.labels, "labels").ok()) reader.Wrong<bool>("labels");
  }
  const int64_t longest = broker::kMaxLifetime.count();
  claim.lease.ttl = Duration(reader.Number("ttl_ns", 1, longest));
  claim.lease.max_lifetime = Duration(reader.Number("max_lifetime_ns", 1, longest));
  claim.lease.keep_while_running = reader.Flag("keep_while_running");
  claim.acquired = WallTime(Duration(reader.Number("acquired_ns", 0, kMaxWallNs)));
  claim.until = WallTime(Duration(reader.Number("lease_until_ns", 0, kMaxWallNs)));
  claim.outage_ttl = reader.Flag("outage_ttl");
  claim.receipt = reader.Text("receipt");
  claim.token = reader.Text("token");
  return claim;
}

}  // namespace

std::string EncodeRecord(const SandboxRecord& record) {
  json::object object = {{"version", kVersion},
                         {"uid", record.uid},
                         {"pool", record.pool},
                         {"phase", ToJson(PhaseName(record.phase))},
                         {"host_uid", record.host_uid},
                         {"made", record.made},
                         {"secret", Base64UrlEncode(record.secret)}};
  if (record.phase != RecordPhase::kStarting) {
    object["host"] = record.host;
    object["boot_id"] = record.boot_id;
    object["agent_pid"] = record.agent.pid;
    object["agent_start"] = static_cast<int64_t>(record.agent.start);
  }
  if (record.phase == RecordPhase::kClaimed && record.claim) {
    object["claim"] = EncodeClaim(*record.claim);
  }
  return json::serialize(object) + "\n";
}

absl::StatusOr<SandboxRecord> ParseRecord(std::string_view text, std::string_view uid) {
  if (text.size() > kMaxRecordBytes) return absl::DataLossError("state file: too large");
  json::parse_options options;
  options.max_depth = 8;
  boost::system::error_code error;
  const json::value whole = json::parse(ToJson(text), error, {}, options);
  if (error || !whole.is_object()) return absl::DataLossError("state file: not a JSON object");
  absl::Status wrong;
  Reader reader(whole.get_object(), &wrong);
  reader.Number("version", kVersion, kVersion);
  SandboxRecord record;
  record.uid = reader.Text("uid");
  if (record.uid != uid || !IsValidId(uid)) reader.Wrong<bool>("uid");
  record.pool = reader.Text("pool");
  record.host_uid =
      static_cast<uid_t>(reader.Number("host_uid", 0, std::numeric_limits<uid_t>::max() - 1));
  record.made = reader.Text("made");
  const auto secret = Base64UrlDecode(reader.Text("secret"));
  if (!secret || secret->size() != wire::kSecretSize) reader.Wrong<bool>("secret");
  record.secret = secret.value_or("");
  const std::string phase = reader.Text("phase");
  if (phase == PhaseName(RecordPhase::kWarm)) {
    record.phase = RecordPhase::kWarm;
  } else if (phase == PhaseName(RecordPhase::kClaimed)) {
    record.phase = RecordPhase::kClaimed;
  } else if (phase != PhaseName(RecordPhase::kStarting)) {
    reader.Wrong<bool>("phase");
  }
  if (record.phase != RecordPhase::kStarting) {
    record.host = reader.Text("host");
    record.boot_id = reader.Text("boot_id");
    if (!IsValidId(record.boot_id)) reader.Wrong<bool>("boot_id");
    record.agent.pid =
        static_cast<pid_t>(reader.Number("agent_pid", 1, std::numeric_limits<pid_t>::max()));
    record.agent.start =
        static_cast<uint64_t>(reader.Number("agent_start", 0, std::numeric_limits<int64_t>::max()));
  }
  if (record.phase == RecordPhase::kClaimed) {
    if (const json::object* claim = reader.Object("claim"))
      record.claim = ReadClaim(*claim, &wrong);
  }
  if (!wrong.ok()) return wrong;
  return record;
}

}  // namespace sandbroker::local
