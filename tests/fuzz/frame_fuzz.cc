// The frame codec: whatever parses is built again to the same bytes and keeps to its limits.
#include "lib/base/check.h"
#include "lib/wire/frame.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

void CheckPayload(const wire::Frame& frame) {
  if (frame.kind == wire::Kind::kData) {
    const auto data = wire::ParseData(frame.payload);
    if (!data.ok()) return;
    SANDBROKER_CHECK(data->bytes.size() <= wire::kMaxData);
    SANDBROKER_CHECK(data->offset + data->bytes.size() >= data->offset);
    const auto header = wire::EncodeDataHeader(frame.stream, data->offset, data->fd);
    SANDBROKER_CHECK(std::string_view(header.data(), header.size()).substr(wire::kHeaderSize) ==
                     frame.payload.substr(0, wire::kDataAddressSize));
  }
  if (frame.kind == wire::Kind::kCredit || frame.kind == wire::Kind::kAck) {
    const auto number = wire::ParseNumber(frame.payload);
    if (!number.ok()) return;
    SANDBROKER_CHECK(wire::EncodeNumber(frame.stream, frame.kind, *number) ==
                     wire::EncodeFrame(frame.stream, frame.kind, frame.payload));
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto kind :
       {wire::Kind::kOpen, wire::Kind::kEvent, wire::Kind::kEnd, wire::Kind::kReset}) {
    seeds.push_back(wire::EncodeFrame(1, kind, "payload"));
  }
  seeds.push_back(wire::EncodeNumber(2, wire::Kind::kCredit, 1 << 20));
  seeds.push_back(wire::EncodeNumber(3, wire::Kind::kAck, 77));
  const auto header = wire::EncodeDataHeader(4, 123456789, 1);
  seeds.push_back(std::string(header.data(), header.size()) + "some output\n");
  return seeds;
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  const std::string_view message(reinterpret_cast<const char*>(data), size);
  const auto frame = wire::ParseFrame(message);
  if (!frame.ok()) return 0;
  SANDBROKER_CHECK(wire::EncodeFrame(frame->stream, frame->kind, frame->payload) == message);
  SANDBROKER_CHECK(wire::KindName(frame->kind) != "unknown");
  fuzz::CheckPayload(*frame);
  return 0;
}
