// Handles: what was made comes back whole; every other text is NOT_FOUND and says no more.
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/broker/core/handle.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

const std::string kKey(32, 'k');

const broker::Handle kHandle{.tenant = "default",
                             .kind = 't',
                             .space = "local",
                             .name = "pool",
                             .uid = "0123456789abcdef",
                             .incarnation = "fedcba9876543210"};

void CheckForged(std::string_view text) {
  if (text == broker::EncodeHandle(kHandle, kKey)) return;
  const auto handle = broker::DecodeHandle(text, kKey);
  SANDBROKER_CHECK(!handle.ok());
  SANDBROKER_CHECK(handle.status().code() == absl::StatusCode::kNotFound);
  SANDBROKER_CHECK(ReasonOf(handle.status()) == Reason::kSandboxNotFound);
}

void CheckRoundTrip(Input input) {
  broker::Handle handle;
  handle.tenant = std::string(input.Bytes(input.Byte() % 64));
  handle.kind = (input.Byte() & 1) != 0 ? 't' : 'w';
  handle.space = std::string(input.Bytes(input.Byte() % 64));
  handle.name = std::string(input.Bytes(input.Byte() % 64));
  handle.uid = std::string(input.Bytes(input.Byte() % 64));
  handle.incarnation = std::string(input.rest().substr(0, 64));
  const std::string text = broker::EncodeHandle(handle, kKey);
  SANDBROKER_CHECK(text.size() <= 1024);
  const auto back = broker::DecodeHandle(text, kKey);
  SANDBROKER_CHECK(back.ok());
  SANDBROKER_CHECK(back->tenant == handle.tenant && back->kind == handle.kind);
  SANDBROKER_CHECK(back->space == handle.space && back->name == handle.name);
  SANDBROKER_CHECK(back->uid == handle.uid && back->incarnation == handle.incarnation);
  SANDBROKER_CHECK(!broker::DecodeHandle(text, std::string(32, 'x')).ok());
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string text = broker::EncodeHandle(kHandle, kKey);
  return {text, "sb1_", text + "A", text.substr(0, text.size() - 1),
          std::string("\x07") + "default" + "\x01\x05local\x04pool\x08" + "01234567" + "abcdef"};
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sandbroker::fuzz::CheckForged({reinterpret_cast<const char*>(data), size});
  sandbroker::fuzz::CheckRoundTrip(sandbroker::fuzz::Input(data, size));
  return 0;
}
