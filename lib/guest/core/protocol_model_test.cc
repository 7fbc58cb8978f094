// Protocols A, D and E together under random interleavings: one execution, two clients that come
// and go over links that drop frames when cut, a program that prints and reads, a clock that jumps.
// What a client has seen and what the program has read is compared with what was printed and sent.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "lib/base/status.h"
#include "lib/guest/core/end_decider.h"
#include "lib/guest/core/execution_table.h"
#include "lib/guest/core/input_ledger.h"
#include "lib/guest/core/output_log.h"

namespace sandbroker::guest {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kCapacity = 256 * 1024;
constexpr uint64_t kWindow = 64 * 1024;
constexpr uint64_t kFinal = 3 * 1024 * 1024;  // what the program prints in all
constexpr Duration kReattach = seconds(60);

char ByteAt(uint64_t offset) { return static_cast<char>(offset * 131 + (offset >> 8) * 7); }

std::string BytesAt(uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  for (uint64_t i = 0; i < size; ++i) bytes[i] = ByteAt(offset + i);
  return bytes;
}

struct Client {
  std::string name;
  bool acks = false;
  bool takeover = false;
  uint64_t attempt = 0;
  uint64_t attachment = 0;  // as the client believes
  uint64_t next = 0;        // all below was seen or announced as gone
  uint64_t lost_bytes = 0;
  bool away_too_long = false;  // its hold may have run out since it last held
  std::deque<OutputLog::Piece> under_way;
  // Input: all below `sent` was sent; nothing is forgotten before it is accepted.
  uint64_t epoch = 0;
  uint64_t sent = 0;
};

class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    log_ = *OutputLog::Create({kCapacity, kWindow, kReattach}, &budget_, now_);
    for (int i = 0; i < 2; ++i) {
      clients_[i].name = i == 0 ? "a" : "b";
      clients_[i].acks = Chance(2);
      clients_[i].takeover = i == 1;
    }
    end_.OnStarted(now_);
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
    Drain();
  }

 private:
  bool Chance(uint32_t one_in) { return random_() % one_in == 0; }
  uint64_t Upto(uint64_t most) { return 1 + random_() % most; }

  void Step() {
    Client& client = clients_[random_() % 2];
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
        return Print();
      case 3:
        return StartAgain();
      case 4:
        return Attach(client);
      case 5:
      case 6:
        return Send(client);
      case 7:
        return Deliver(client);
      case 8:
        return Chance(8) ? Cut(client) : Deliver(client);
      case 9:
        return Chance(20) ? PassTime() : Write(client);
      case 10:
        return Chance(30) ? Detach(client) : Write(client);
      case 11:
        return Chance(50) ? EndProgram() : Print();
    }
  }

  // Protocol D: whatever is repeated, the program is started once.
  void StartAgain() {
    const ExecutionTable::StartKey key{"e", "hash", "boot"};
    const auto admission = table_.Admit(key, now_);
    ASSERT_TRUE(admission.ok());
    if (*admission == ExecutionTable::Admission::kAttach) return;
    ++started_;
    table_.Add(key, true);
  }

  void Print() {
    if (leader_over_ || log_->end() >= kFinal) return;
    const uint64_t want = std::min<uint64_t>(Upto(70 * 1024), kFinal - log_->end());
    const bool held = log_->held(now_);
    const uint64_t floor = log_->floor();
    const uint64_t room = log_->Room(now_, std::min<uint64_t>(want, OutputLog::kFrame));
    ASSERT_TRUE(!held || log_->start() <= floor) << "evicted above the floor";
    ASSERT_TRUE(!held || log_->end() + room - floor <= kCapacity);
    ASSERT_TRUE(held || room > 0) << "a free log made the program wait";
    if (room == 0) return;
    const std::string bytes = BytesAt(log_->end(), room);
    if (room < 1000) {
      log_->AppendCopy(Chance(2) ? 1 : 2, bytes);
    } else {
      log_->Append(Chance(2) ? 1 : 2, SharedBytes::Copy(bytes));
    }
    ASSERT_LE(log_->cost(), kCapacity + 2 * OutputLog::kSegmentCost);
  }

  void Attach(Client& client) {
    OutputLog::ReaderRequest request;
    request.holder = client.name;
    request.attempt = client.attempt > 0 && Chance(10) ? client.attempt : client.attempt + 1;
    request.offset = client.next;
    request.acks = client.acks;
    request.takeover = client.takeover;
    const auto attached = log_->Attach(request, now_);
    if (request.attempt == client.attempt) {
      ASSERT_EQ(ReasonOf(attached.status()), Reason::kAttemptStale);
      return;
    }
    if (!attached.ok()) {
      ASSERT_EQ(ReasonOf(attached.status()), Reason::kHeldByOther);
      return;
    }
    client.attempt = request.attempt;
    client.attachment = attached->id;
    client.under_way.clear();
    if (attached->offset != client.next) {
      ASSERT_GT(attached->offset, client.next);
      // Within its window a client that acks loses nothing.
      ASSERT_TRUE(!client.acks || client.away_too_long);
      client.lost_bytes += attached->offset - client.next;
      client.next = attached->offset;
    }
    client.away_too_long = false;
    for (Client& other : clients_) {
      if (&other != &client && attached->displaced == other.attachment) other.away_too_long = true;
    }
    if (!started_) StartAgain();
    const auto epoch = ledger_.Attach(client.name, client.attempt);
    ASSERT_TRUE(epoch.ok());
    client.epoch = *epoch;
    client.sent = ledger_.accepted();
  }

  void Send(Client& client) {
    if (auto piece = log_->Next(client.attachment, Upto(64 * 1024), now_)) {
      client.under_way.push_back(std::move(*piece));
    }
  }

  void Deliver(Client& client) {
    if (client.under_way.empty()) return;
    const OutputLog::Piece piece = client.under_way.front();
    client.under_way.pop_front();
    ASSERT_EQ(piece.offset, client.next) << "lost or doubled";
    ASSERT_EQ(piece.bytes.view(), BytesAt(piece.offset, piece.bytes.size()));
    client.next += piece.bytes.size();
    if (!client.acks || Chance(2)) return;
    ASSERT_TRUE(log_->Ack(client.attachment, client.next).ok());
  }

  void Cut(Client& client) {
    client.under_way.clear();
    log_->Lost(client.attachment, now_);
    client.attachment = 0;
  }

  void Detach(Client& client) {
    if (client.attachment == 0) return;
    log_->Detach(client.attachment, now_);
    client.attachment = 0;
    client.under_way.clear();
    client.away_too_long = true;
  }

  void PassTime() {
    now_ += Chance(3) ? Duration(kReattach) : Duration(seconds(Upto(20)));
    for (Client& client : clients_) {
      if (!log_->held(now_)) client.away_too_long = true;
    }
    end_.OnTime(now_);
  }

  // Protocol E: offsets of old, present and future input, from whoever thinks to be the writer.
  void Write(Client& client) {
    if (client.epoch == 0) return;
    const uint64_t back = std::min<uint64_t>(client.sent, random_() % 3 == 0 ? Upto(50) : 0);
    const uint64_t offset = client.sent - back;
    const uint64_t size = Upto(100);
    const uint64_t accepted = ledger_.accepted();
    const auto taken = ledger_.OnData(client.epoch, offset, size);
    if (client.epoch != ledger_.epoch()) {
      ASSERT_EQ(ReasonOf(taken.status()), Reason::kTakenOver);
      ASSERT_EQ(ledger_.accepted(), accepted);
      return;
    }
    ASSERT_TRUE(taken.ok()) << taken.status();
    program_read_ += BytesAt(offset + *taken, size - *taken);
    ASSERT_EQ(program_read_.size(), ledger_.accepted());
    client.sent = std::max(client.sent, offset + size);
    ASSERT_EQ(ReasonOf(ledger_.OnData(client.epoch, client.sent + 1, 1).status()),
              Reason::kInputGap);
  }

  void EndProgram() {
    if (leader_over_ || !started_) return;
    leader_over_ = true;
    if (Chance(2)) end_.OnCancel(now_, {"somebody", seconds(1), false});
    end_.OnLeaderEnded(now_, {0, 0, false});
    if (Chance(2)) end_.OnSessionGone(now_);
    if (Chance(4)) end_.OnSupervisorKilled(now_);
    end_.OnTreeGone(now_);
    end_.OnOutputClosed(now_);
    CountEnd();
    end_.OnCancel(now_, {"late", Duration::zero(), false});
    end_.OnLeaderEnded(now_, {1, 0, false});
    CountEnd();
    log_->Finish();
    table_.OnEnded("e", now_);
  }

  void CountEnd() {
    ASSERT_TRUE(end_.ended());
    const std::string now = end_.ended()->SerializeAsString();
    ASSERT_TRUE(first_end_.empty() || now == first_end_) << "a second end";
    first_end_ = now;
  }

  // Whoever attaches last gets all that is left, to the last byte.
  void Drain() {
    if (!started_) StartAgain();
    EndProgram();
    now_ += kReattach + kReattach;
    for (Client& client : clients_) client.away_too_long = true;
    Client& last = clients_[1];
    last.attempt += 1;
    OutputLog::ReaderRequest request{last.name, last.attempt, last.next, last.acks, true};
    const auto attached = log_->Attach(request, now_);
    ASSERT_TRUE(attached.ok()) << attached.status();
    last.attachment = attached->id;
    last.under_way.clear();
    last.lost_bytes += attached->offset - last.next;
    last.next = attached->offset;
    while (log_->HasUnsent(last.attachment)) Send(last);
    while (!last.under_way.empty()) Deliver(last);
    EXPECT_EQ(last.next, log_->end());
    EXPECT_EQ(started_, 1);
    EXPECT_EQ(program_read_, BytesAt(0, program_read_.size()));
    log_.reset();
    EXPECT_EQ(budget_.used(), 0u);
  }

  std::mt19937 random_;
  Time now_ = Time() + seconds(1000);
  OutputBudget budget_{kCapacity + kWindow};
  std::unique_ptr<OutputLog> log_;
  InputLedger ledger_{true};
  ExecutionTable table_{"boot", {}};
  EndDecider end_{EndDecider::Settings{}};
  Client clients_[2];
  int started_ = 0;
  bool leader_over_ = false;
  std::string program_read_;
  std::string first_end_;
};

TEST(ProtocolModel, RandomInterleavings_LoseNothingDoubleNothingEndOnce) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World(seed).Run(1500);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace sandbroker::guest
