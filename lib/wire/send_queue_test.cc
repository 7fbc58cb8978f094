// The order of sending: control frames first, then the streams with data in turn.
#include "lib/wire/send_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace sandbroker::wire {
namespace {

TEST(SendQueue, Fresh_IsEmpty) {
  SendQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.PopControl(), std::nullopt);
  EXPECT_EQ(queue.NextStream(), std::nullopt);
}

TEST(SendQueue, Control_KeepsItsOrderAndIsCounted) {
  SendQueue queue;
  queue.PushControl("one");
  queue.PushControl("three");
  EXPECT_EQ(queue.control_bytes(), 8u);
  EXPECT_EQ(queue.PopControl(), "one");
  EXPECT_EQ(queue.control_bytes(), 5u);
  EXPECT_EQ(queue.PopControl(), "three");
  EXPECT_EQ(queue.control_bytes(), 0u);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, BusyStream_WaitsForEveryOtherBeforeItsNextTurn) {
  SendQueue queue;
  queue.MarkReady(1);
  queue.MarkReady(2);
  queue.MarkReady(3);
  std::vector<uint32_t> order;
  for (int i = 0; i < 7; ++i) {
    const auto stream = queue.NextStream();
    ASSERT_TRUE(stream.has_value());
    order.push_back(*stream);
    queue.MarkReady(*stream);  // each has more
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{1, 2, 3, 1, 2, 3, 1}));
}

TEST(SendQueue, KeystrokeDuringABulkCopy_IsNext) {
  SendQueue queue;
  queue.MarkReady(1);
  EXPECT_EQ(queue.NextStream(), 1u);
  queue.MarkReady(5);
  queue.MarkReady(1);
  EXPECT_EQ(queue.NextStream(), 5u);
}

TEST(SendQueue, MarkedTwice_HasOneTurn) {
  SendQueue queue;
  queue.MarkReady(4);
  queue.MarkReady(4);
  EXPECT_EQ(queue.NextStream(), 4u);
  EXPECT_EQ(queue.NextStream(), std::nullopt);
}

TEST(SendQueue, RemovedStream_HasNoTurn) {
  SendQueue queue;
  queue.MarkReady(1);
  queue.MarkReady(2);
  queue.Remove(1);
  queue.Remove(9);  // never marked
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.NextStream(), 2u);
  EXPECT_EQ(queue.NextStream(), std::nullopt);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, OnlyRemovedStreams_CountAsEmpty) {
  SendQueue queue;
  queue.MarkReady(1);
  queue.Remove(1);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, RemovedAndMarkedAgain_HasOneTurn) {
  SendQueue queue;
  queue.MarkReady(1);
  queue.Remove(1);
  queue.MarkReady(1);
  EXPECT_EQ(queue.NextStream(), 1u);
  EXPECT_EQ(queue.NextStream(), std::nullopt);
}

}  // namespace
}  // namespace sandbroker::wire
