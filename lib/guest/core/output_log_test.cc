#include "lib/guest/core/output_log.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::guest {
namespace {

using std::chrono::seconds;
constexpr uint64_t kMiB = 1 << 20;
const Time kStart = Time() + seconds(1000);

class OutputLogTest : public ::testing::Test {
 protected:
  void Make(uint64_t capacity = 4 * kMiB, uint64_t window = kMiB) {
    log_ = *OutputLog::Create({capacity, window, seconds(60)}, &budget_, kStart);
  }
  // Prints as much as the log takes, at most `size`; by default long after the last read.
  uint64_t Print(uint64_t size, Time now = kStart + seconds(1), int fd = 1) {
    uint64_t done = 0;
    while (done < size) {
      const uint64_t room = log_->Room(now, std::min<uint64_t>(OutputLog::kFrame, size - done));
      if (room == 0) break;
      log_->Append(fd, SharedBytes::Own(std::string(room, 'x')));
      done += room;
    }
    return done;
  }
  OutputLog::ReaderRequest Request(const std::string& holder, uint64_t attempt,
                                   uint64_t offset = 0) {
    OutputLog::ReaderRequest request;
    request.holder = holder;
    request.attempt = attempt;
    request.offset = offset;
    return request;
  }
  uint64_t Read(uint64_t id, uint64_t size) {
    uint64_t done = 0;
    while (done < size) {
      const auto piece = log_->Next(id, size - done, kStart);
      if (!piece) break;
      done += piece->bytes.size();
    }
    return done;
  }

  OutputBudget budget_{64 * kMiB};
  std::unique_ptr<OutputLog> log_;
};

TEST_F(OutputLogTest, Pieces_KeepOrderFdAndOffset) {
  Make();
  log_->AppendCopy(1, "one");
  log_->AppendCopy(1, "two");
  log_->AppendCopy(2, "err");
  log_->Append(1, SharedBytes::Copy("three"));
  const auto attached = log_->Attach(Request("a", 1), kStart);
  ASSERT_TRUE(attached.ok());
  auto piece = log_->Next(attached->id, 4, kStart);
  EXPECT_EQ(piece->bytes.view(), "onet");
  piece = log_->Next(attached->id, 100, kStart);
  EXPECT_EQ(piece->offset, 4u);
  EXPECT_EQ(piece->bytes.view(), "wo");
  piece = log_->Next(attached->id, 100, kStart);
  EXPECT_EQ(piece->fd, 2);
  EXPECT_EQ(piece->bytes.view(), "err");
  piece = log_->Next(attached->id, 100, kStart);
  EXPECT_EQ(piece->bytes.view(), "three");
  EXPECT_FALSE(log_->Next(attached->id, 100, kStart));
  EXPECT_EQ(log_->end(), 14u);
}

TEST_F(OutputLogTest, Held_FullLogStopsTheProgram) {
  Make();
  const auto attached = log_->Attach(Request("a", 1), kStart);
  const uint64_t taken = Print(16 * kMiB);
  EXPECT_LE(taken, 4 * kMiB);
  EXPECT_GT(taken, 4 * kMiB - OutputLog::kFrame);
  EXPECT_EQ(log_->start(), 0u);
  // Without acks, W behind what was sent may go.
  Read(attached->id, 2 * kMiB);
  EXPECT_EQ(log_->floor(), kMiB);
  EXPECT_GT(Print(16 * kMiB), kMiB - OutputLog::kFrame);
  EXPECT_LE(log_->start(), log_->floor());
}

TEST_F(OutputLogTest, HeldWithAcks_OnlyAckedOutputIsEvicted) {
  Make();
  auto request = Request("a", 1);
  request.acks = true;
  const auto attached = log_->Attach(request, kStart);
  Print(16 * kMiB);
  Read(attached->id, 4 * kMiB);
  EXPECT_EQ(log_->floor(), 0u);
  EXPECT_EQ(Print(kMiB), 0u);
  ASSERT_TRUE(log_->Ack(attached->id, kMiB).ok());
  EXPECT_GT(Print(16 * kMiB), kMiB - OutputLog::kFrame);
  EXPECT_LE(log_->start(), kMiB);
}

TEST_F(OutputLogTest, Ack_BeyondWhatWasSentIsRefusedAndOldOnesDoNotMoveBack) {
  Make();
  Print(1000);
  auto request = Request("a", 1);
  request.acks = true;
  const auto attached = log_->Attach(request, kStart);
  Read(attached->id, 500);
  EXPECT_EQ(ReasonOf(log_->Ack(attached->id, 501)), Reason::kOffsetBeyondEnd);
  EXPECT_TRUE(log_->Ack(attached->id, 400).ok());
  EXPECT_TRUE(log_->Ack(attached->id, 300).ok());
  EXPECT_EQ(log_->floor(), 400u);
}

TEST_F(OutputLogTest, LostReader_IsWaitedForThenOldOutputGoes) {
  Make();
  const auto attached = log_->Attach(Request("a", 1), kStart);
  Print(16 * kMiB);
  log_->Lost(attached->id, kStart);
  EXPECT_EQ(Print(kMiB, kStart + seconds(59)), 0u);
  EXPECT_EQ(log_->hold_until(), kStart + seconds(60));
  EXPECT_EQ(Print(kMiB, kStart + seconds(60)), kMiB);
  EXPECT_GT(log_->start(), 0u);
}

TEST_F(OutputLogTest, NeverAttached_IsHeldFromTheStartOfTheProgram) {
  Make();
  Print(16 * kMiB);
  EXPECT_EQ(log_->start(), 0u);
  EXPECT_EQ(Print(kMiB, kStart + seconds(61)), kMiB);
}

TEST_F(OutputLogTest, Detach_FreesAtOnceButOnlyFromTheCurrentAttachment) {
  Make();
  const auto first = log_->Attach(Request("a", 1), kStart);
  const auto second = log_->Attach(Request("a", 2), kStart);
  EXPECT_EQ(second->displaced, first->id);
  log_->Detach(first->id, kStart);
  EXPECT_TRUE(log_->attached());
  log_->Detach(second->id, kStart);
  EXPECT_FALSE(log_->held(kStart));
  EXPECT_EQ(Print(16 * kMiB), 16 * kMiB);
}

TEST_F(OutputLogTest, Attempts_MustGrowPerHolder) {
  Make();
  ASSERT_TRUE(log_->Attach(Request("a", 5), kStart).ok());
  EXPECT_EQ(ReasonOf(log_->Attach(Request("a", 5), kStart).status()), Reason::kAttemptStale);
  EXPECT_EQ(ReasonOf(log_->Attach(Request("a", 4), kStart).status()), Reason::kAttemptStale);
  EXPECT_TRUE(log_->Attach(Request("a", 6), kStart).ok());
  auto other = Request("b", 1);
  EXPECT_EQ(ReasonOf(log_->Attach(other, kStart).status()), Reason::kHeldByOther);
  other.takeover = true;
  EXPECT_TRUE(log_->Attach(other, kStart).ok());
  EXPECT_EQ(ReasonOf(log_->Attach(Request("a", 6), kStart).status()), Reason::kAttemptStale);
}

TEST_F(OutputLogTest, OtherHolder_MayComeWhenTheLogIsFree) {
  Make();
  const auto first = log_->Attach(Request("a", 1), kStart);
  log_->Lost(first->id, kStart);
  EXPECT_EQ(ReasonOf(log_->Attach(Request("b", 1), kStart + seconds(1)).status()),
            Reason::kHeldByOther);
  EXPECT_TRUE(log_->Attach(Request("b", 1), kStart + seconds(60)).ok());
}

TEST_F(OutputLogTest, Attach_BeyondTheEndIsRefusedAndBeforeTheStartGoesOnThere) {
  Make();
  Print(100);
  EXPECT_EQ(ReasonOf(log_->Attach(Request("a", 1, 101), kStart).status()),
            Reason::kOffsetBeyondEnd);
  // A refused attempt is not used up.
  const auto at_end = log_->Attach(Request("a", 1, 100), kStart);
  ASSERT_TRUE(at_end.ok());
  log_->Detach(at_end->id, kStart);
  Print(16 * kMiB);
  ASSERT_GT(log_->start(), 100u);
  const auto late = log_->Attach(Request("a", 2, 100), kStart);
  EXPECT_EQ(late->offset, log_->start());
}

TEST_F(OutputLogTest, LiveFrom_IsWhatTheHolderWasNotSent) {
  Make();
  Print(1000);
  const auto first = log_->Attach(Request("a", 1), kStart);
  EXPECT_EQ(first->live_from, 0u);
  Read(first->id, 600);
  log_->Lost(first->id, kStart);
  const auto again = log_->Attach(Request("a", 2, 200), kStart);
  EXPECT_EQ(again->live_from, 200u);
  auto other = Request("b", 1);
  other.takeover = true;
  const auto taker = log_->Attach(other, kStart);
  EXPECT_EQ(taker->live_from, 600u);
  const auto further = log_->Attach(Request("b", 2, 800), kStart);
  EXPECT_EQ(further->live_from, 800u);
}

TEST_F(OutputLogTest, Budget_ReservesWindowAndShrinksOnlyTheRest) {
  OutputBudget small(3 * kMiB);
  auto log = OutputLog::Create({16 * kMiB, kMiB, seconds(60)}, &small, kStart);
  ASSERT_TRUE(log.ok());
  auto second = OutputLog::Create({16 * kMiB, kMiB, seconds(60)}, &small, kStart);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(ReasonOf(OutputLog::Create({}, &small, kStart).status()), Reason::kCapacity);
  log_ = *std::move(log);
  const uint64_t first = Print(16 * kMiB);
  EXPECT_GT(first, kMiB);
  log_ = *std::move(second);
  EXPECT_GE(Print(16 * kMiB) + 2 * OutputLog::kFrame, kMiB);
  EXPECT_LE(small.used(), small.total());
  log_.reset();
}

TEST_F(OutputLogTest, Finish_GivesBackWhatIsNotStored) {
  Make();
  Print(1000);
  EXPECT_GE(budget_.used(), kMiB);
  log_->Finish();
  EXPECT_LT(budget_.used(), 1200u);
  log_.reset();
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(OutputLogTest, ReaderThatMovesOn_IsNotReadFarAheadOf) {
  Make();
  const auto attached = log_->Attach(Request("a", 1), kStart);
  EXPECT_LE(Print(4 * kMiB, kStart), OutputLog::kReadAhead);
  EXPECT_EQ(log_->RoomChangesAt(kStart), kStart + OutputLog::kStall);
  Read(attached->id, OutputLog::kReadAhead / 4);
  EXPECT_EQ(Print(1, kStart), 0u);  // goes on at half, not at every byte
  Read(attached->id, OutputLog::kReadAhead / 2);
  EXPECT_GT(Print(kMiB, kStart), OutputLog::kReadAhead / 4);
  EXPECT_GT(Print(4 * kMiB, kStart + OutputLog::kStall), kMiB);
}

TEST_F(OutputLogTest, WhatAReaderHasTaken_IsKeptOnlyALittle) {
  Make(16 * kMiB, 64 * 1024);
  const auto attached = log_->Attach(Request("a", 1), kStart);
  for (int i = 0; i < 10; ++i) {
    Print(kMiB);
    Read(attached->id, kMiB);
  }
  Print(1);
  EXPECT_GE(log_->start() + OutputLog::kHistory + OutputLog::kFrame, log_->floor());
  EXPECT_LE(log_->start() + OutputLog::kHistory, log_->floor());
}

TEST_F(OutputLogTest, DroppedOutput_IsAGapForWhoComesLater) {
  Make();
  Print(1000);
  log_->Finish();
  log_->DropOutput();
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_EQ(log_->Attach(Request("a", 1, 10), kStart)->offset, 1000u);
}

TEST_F(OutputLogTest, SingleBytesOfAlternatingFds_StayWithinTheCapacity) {
  Make(2 * kMiB, 256 * 1024);
  uint64_t printed = 0;
  for (int i = 0; i < 200000; ++i) {
    if (log_->Room(kStart, 1) == 0) break;
    log_->AppendCopy(1 + i % 2, "x");
    ++printed;
  }
  EXPECT_LT(printed, 200000u);
  EXPECT_LE(log_->cost(), 2 * kMiB);
}

}  // namespace
}  // namespace sandbroker::guest
