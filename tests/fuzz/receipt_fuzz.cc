// Receipt records: what was formatted parses to the same; what parses formats to a record that
// parses to the same; anything else is refused. A torn file must never pass for a whole one.
#include "lib/base/check.h"
#include "lib/broker/core/receipt.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

using broker::Receipt;

Receipt Sample() {
  Receipt receipt;
  receipt.state = Receipt::State::kBound;
  receipt.body_hash = std::string(64, 'a');
  receipt.token = "0123456789abcdef0123456789abcdef";
  receipt.owner = "fedcba9876543210fedcba9876543210";
  receipt.deadline = WallTime(std::chrono::seconds(1'700'000'000));
  receipt.uid = "00112233445566778899aabbccddeeff";
  return receipt;
}

bool Same(const Receipt& a, const Receipt& b) {
  return a.state == b.state && a.body_hash == b.body_hash && a.token == b.token &&
         a.owner == b.owner && a.deadline == b.deadline && a.uid == b.uid;
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  Receipt receipt = Sample();
  for (const auto state : {Receipt::State::kPending, Receipt::State::kOpen, Receipt::State::kBound,
                           Receipt::State::kEnded}) {
    receipt.state = state;
    seeds.push_back(broker::FormatReceipt(receipt));
  }
  return seeds;
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const auto parsed = broker::ParseReceipt({reinterpret_cast<const char*>(data), size});
  if (parsed.ok()) {
    const auto again = broker::ParseReceipt(broker::FormatReceipt(*parsed));
    SANDBROKER_CHECK(again.ok() && fuzz::Same(*parsed, *again));
  }
  static const std::string whole = broker::FormatReceipt(fuzz::Sample());
  const size_t cut = size % (whole.size() + 1);
  const auto torn = broker::ParseReceipt(std::string_view(whole).substr(0, cut));
  SANDBROKER_CHECK(!torn.ok() || fuzz::Same(*torn, fuzz::Sample()));
  return 0;
}
