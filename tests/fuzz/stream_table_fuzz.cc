// The stream machine, driven by a script of bytes. Even scripts let two honest sides talk over
// two queues that deliver late: neither may ever find the other at fault, and what arrives is what
// was sent. Odd scripts feed one side whatever a hostile peer may send: it must refuse or account.
#include <deque>
#include <map>
#include <string>

#include "lib/base/check.h"
#include "lib/wire/frame.h"
#include "lib/wire/stream_table.h"
#include "tests/fuzz/fuzz.h"

namespace sandbroker::fuzz {
namespace {

constexpr size_t kMaxStreams = 4;
using wire::Kind;
using Verdict = wire::StreamTable::Verdict;

std::string DataFrame(uint32_t stream, uint64_t offset, size_t size) {
  const auto header = wire::EncodeDataHeader(stream, offset, 1);
  return std::string(header.data(), header.size()) + std::string(size, 'd');
}

// One end of an honest link.
class Peer {
 public:
  explicit Peer(wire::Side side) : side_(side), table_(side, kMaxStreams) {}

  void Connect(Peer* other) { other_ = other; }

  void Open() {
    // The agent may still hold streams whose RESET is under way to it, so the broker counts
    // those that it has not seen answered, as lib/link does by its own bound.
    if (other_->table_.open_streams() + OpensUnderWay() >= kMaxStreams) return;
    SendFrame(wire::EncodeFrame(table_.OpenStream(), Kind::kOpen, "start"));
  }
  void SendData(uint32_t stream, size_t size) {
    const uint64_t room = table_.SendRoom(stream);
    const size_t count = size < room ? size : static_cast<size_t>(room);
    if (count == 0) return;
    SendFrame(DataFrame(stream, sent_[stream], count));
    table_.OnDataSent(stream, count);
    sent_[stream] += count;
  }
  void Grant(uint32_t stream, uint64_t more) {
    const uint64_t total = table_.received(stream) + more;
    if (table_.GrantTotal(stream, total)) {
      SendFrame(wire::EncodeNumber(stream, Kind::kCredit, total));
    }
  }
  void Finish(uint32_t stream, bool reset) {
    if (!table_.IsOpen(stream)) return;
    const bool end = side_ == wire::Side::kAgent && !reset;
    SendFrame(wire::EncodeFrame(stream, end ? Kind::kEnd : Kind::kReset, ""));
    table_.CloseStream(stream);
  }
  void Tell(uint32_t stream) {
    if (!table_.IsOpen(stream)) return;
    SendFrame(side_ == wire::Side::kBroker ? wire::EncodeNumber(stream, Kind::kAck, 1)
                                           : wire::EncodeFrame(stream, Kind::kEvent, "event"));
  }
  // Takes the oldest frame that is under way to this side.
  void Deliver() {
    if (inbox_.empty()) return;
    const std::string message = std::move(inbox_.front());
    inbox_.pop_front();
    const auto frame = wire::ParseFrame(message);
    SANDBROKER_CHECK(frame.ok());
    const uint64_t before = table_.received(frame->stream);
    const auto verdict = table_.OnFrame(*frame);
    SANDBROKER_CHECK(verdict.ok());
    if (frame->kind != Kind::kData || *verdict == Verdict::kIgnore) return;
    const auto data = wire::ParseData(frame->payload);
    SANDBROKER_CHECK(data.ok() && data->offset == before);  // nothing lost, doubled or reordered
    SANDBROKER_CHECK(table_.received(frame->stream) == before + data->bytes.size());
  }
  void DeliverAll() {
    while (!inbox_.empty()) Deliver();
  }
  const wire::StreamTable& table() const { return table_; }

 private:
  void SendFrame(std::string frame) { other_->inbox_.push_back(std::move(frame)); }
  size_t OpensUnderWay() const {
    size_t count = 0;
    for (const std::string& message : other_->inbox_) {
      count += message[4] == static_cast<char>(Kind::kOpen) ? 1 : 0;
    }
    return count;
  }

  const wire::Side side_;
  wire::StreamTable table_;
  Peer* other_ = nullptr;
  std::deque<std::string> inbox_;
  std::map<uint32_t, uint64_t> sent_;
};

void RunHonest(Input script) {
  Peer broker(wire::Side::kBroker);
  Peer agent(wire::Side::kAgent);
  broker.Connect(&agent);
  agent.Connect(&broker);
  while (!script.empty()) {
    const uint8_t op = script.Byte();
    Peer& actor = (op & 0x80) != 0 ? agent : broker;
    const uint32_t stream = 1 + script.Byte() % 8;
    switch (op % 7) {
      case 0:
        broker.Open();
        break;
      case 1:
        actor.SendData(stream, 1 + script.Byte());
        break;
      case 2:
        actor.Grant(stream, script.Byte());
        break;
      case 3:
        actor.Finish(stream, (op & 0x40) != 0);
        break;
      case 4:
        actor.Tell(stream);
        break;
      default:
        actor.Deliver();
        break;
    }
    SANDBROKER_CHECK(agent.table().open_streams() <= kMaxStreams);
  }
  broker.DeliverAll();
  agent.DeliverAll();
  // With nothing under way both sides know the same streams.
  for (uint32_t stream = 1; stream < 64; ++stream) {
    SANDBROKER_CHECK(broker.table().IsOpen(stream) == agent.table().IsOpen(stream));
  }
}

void RunHostile(wire::Side side, Input script) {
  wire::StreamTable table(side, kMaxStreams);
  std::map<uint32_t, uint64_t> granted;
  if (side == wire::Side::kBroker) {
    for (size_t i = 0; i < 3; ++i) table.OpenStream();
  }
  while (!script.empty()) {
    const uint32_t stream = script.Byte() % 8;
    const uint8_t op = script.Byte();
    if (op >= 0xf0 && table.IsOpen(stream)) {
      const uint64_t total = granted[stream] + op;
      if (table.GrantTotal(stream, total)) granted[stream] = total;
      continue;
    }
    const std::string_view payload = script.Bytes(script.Byte() % 32);
    const wire::Frame frame{stream, static_cast<Kind>(1 + op % 7), payload};
    const auto verdict = table.OnFrame(frame);
    SANDBROKER_CHECK(table.open_streams() <= kMaxStreams);
    SANDBROKER_CHECK(table.received(stream) <= granted[stream]);
    if (!verdict.ok()) return;  // the link ends here
    const uint64_t room = table.SendRoom(stream);
    table.OnDataSent(stream, room < 5 ? room : 5);
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  using namespace std::string_literals;
  return {
      // open, deliver, grant 255, deliver, agent sends 200, deliver, agent ends, deliver
      "\x00\x00\x01\x85\x00\x02\x00\xff\x85\x00\x81\x00\xc8\x05\x00\x83\x00\x05\x00"s,
      "\x00\x07\x00\x00\x00\x85\x00\x85\x00\x02\x00\x10\x02\x01\x20\x85\x00\x81\x00\xff"s,
      "\x01\x01\xff\x01\x01\x09\0\0\0\0\0\0\0\0\x01"s,
      "\x03\x01\x00\x00\x01\x01\x09\0\0\0\0\0\0\0\0\x01\x01\x03\x08\xff\0\0\0\0\0\0\0"s,
  };
}

}  // namespace sandbroker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandbroker;
  fuzz::Input input(data, size);
  const uint8_t mode = input.Byte();
  if ((mode & 1) == 0) {
    fuzz::RunHonest(input);
  } else {
    fuzz::RunHostile((mode & 2) != 0 ? wire::Side::kAgent : wire::Side::kBroker, input);
  }
  return 0;
}
