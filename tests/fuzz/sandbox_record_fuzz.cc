// State files of sandboxes: what was encoded parses to the same; what parses encodes to a record
// that parses to the same; anything else is refused. A torn file must never pass for a whole one.
#include "lib/backend/local/sandbox_record.h"
#include "lib/base/check.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

constexpr char kUid[] = "00112233445566778899aabbccddeeff";

local::SandboxRecord Sample(broker::RecordPhase phase) {
  local::SandboxRecord record;
  record.uid = kUid;
  record.pool = "default";
  record.phase = phase;
  record.host_uid = 2000017;
  record.made = std::string(64, 'a');
  record.secret = std::string(32, '\x81');
  record.host = "0a1b/pid:[4026531836]";
  record.boot_id = "fedcba98765432100123456789abcdef";
  record.agent = {4711, 123456789};
  broker::Claim claim;
  claim.tenant = "default";
  claim.labels = {{"app", "ci"}, {"example.org/x", ""}};
  claim.acquired = WallTime(std::chrono::seconds(1'700'000'000));
  claim.until = claim.acquired + std::chrono::minutes(13);
  claim.receipt = std::string(64, 'b');
  claim.token = "0123456789abcdef0123456789abcdef";
  record.claim = claim;
  return record;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto phase : {broker::RecordPhase::kStarting, broker::RecordPhase::kWarm,
                           broker::RecordPhase::kClaimed}) {
    seeds.push_back(local::EncodeRecord(Sample(phase)));
  }
  return seeds;
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const auto parsed = local::ParseRecord({reinterpret_cast<const char*>(data), size}, fuzz::kUid);
  if (parsed.ok()) {
    const std::string text = local::EncodeRecord(*parsed);
    const auto again = local::ParseRecord(text, fuzz::kUid);
    SANDBROKER_CHECK(again.ok() && local::EncodeRecord(*again) == text);
    SANDBROKER_CHECK((parsed->phase == broker::RecordPhase::kClaimed) == parsed->claim.has_value());
  }
  static const std::string whole = local::EncodeRecord(fuzz::Sample(broker::RecordPhase::kClaimed));
  const size_t cut = size % (whole.size() - 1);  // but for its newline it is whole
  SANDBROKER_CHECK(!local::ParseRecord(std::string_view(whole).substr(0, cut), fuzz::kUid).ok());
  return 0;
}
