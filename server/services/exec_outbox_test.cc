#include "server/services/exec_outbox.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

v1::ExecResponse Parse(rpc::Outgoing outgoing) {
  v1::ExecResponse event;
  EXPECT_TRUE(
      grpc::SerializationTraits<v1::ExecResponse>::Deserialize(&outgoing.message, &event).ok());
  return event;
}

SharedBytes Bytes(size_t size, char fill = 'x') {
  return SharedBytes::Own(std::string(size, fill));
}

TEST(ExecOutbox, Output_IsTheMessageProtobufWouldMake) {
  const size_t sizes[] = {0, 1, 127, 128, 2047, 2048, 2049, 65536, kMaxOutputChunkBytes};
  const uint64_t offsets[] = {0, 1, 127, 128, 1ull << 40, UINT64_MAX / 2};
  for (const size_t size : sizes) {
    for (const uint64_t offset : offsets) {
      ExecOutbox outbox;
      outbox.PushOutput(offset, 2, Bytes(size));
      rpc::Outgoing sent = outbox.Pop();
      EXPECT_EQ(sent.credit, size);
      const v1::ExecResponse event = Parse(std::move(sent));
      EXPECT_EQ(event.output().offset(), offset);
      EXPECT_EQ(event.output().stream(), v1::OUTPUT_STREAM_STDERR);
      EXPECT_EQ(event.output().data(), std::string(size, 'x'));
    }
  }
}

TEST(ExecOutbox, PiecesThatFollowEachOther_LeaveAsOneMessage) {
  ExecOutbox outbox;
  outbox.PushOutput(0, 1, Bytes(10, 'a'));
  outbox.PushOutput(10, 1, Bytes(5000, 'b'));
  outbox.PushOutput(5010, 1, Bytes(1, 'c'));
  outbox.PushOutput(5011, 1, Bytes(1, 'd'));
  EXPECT_EQ(outbox.size(), 1u);
  const v1::ExecResponse event = Parse(outbox.Pop());
  EXPECT_EQ(event.output().data(), std::string(10, 'a') + std::string(5000, 'b') + "cd");
  EXPECT_TRUE(outbox.empty());
}

TEST(ExecOutbox, OtherStreamGapOrEvent_StartsANewMessage) {
  ExecOutbox outbox;
  outbox.PushOutput(0, 1, Bytes(10));
  outbox.PushOutput(10, 2, Bytes(10));
  outbox.PushOutput(30, 2, Bytes(10));  // after a gap
  v1::ExecResponse warning;
  warning.mutable_warning()->set_reason("X");
  outbox.PushEvent(warning);
  outbox.PushOutput(40, 2, Bytes(10));
  EXPECT_EQ(outbox.size(), 5u);
  EXPECT_EQ(Parse(outbox.Pop()).output().stream(), v1::OUTPUT_STREAM_STDOUT);
  EXPECT_EQ(Parse(outbox.Pop()).output().offset(), 10u);
  EXPECT_EQ(Parse(outbox.Pop()).output().offset(), 30u);
  EXPECT_EQ(Parse(outbox.Pop()).warning().reason(), "X");
  EXPECT_TRUE(outbox.last());
  EXPECT_EQ(Parse(outbox.Pop()).output().offset(), 40u);
}

TEST(ExecOutbox, Message_NeverExceedsTheContractsLimit) {
  ExecOutbox outbox;
  for (uint64_t offset = 0; offset < 1 << 20; offset += 60'000) {
    outbox.PushOutput(offset, 1, Bytes(60'000));
  }
  while (!outbox.empty()) {
    EXPECT_LE(Parse(outbox.Pop()).output().data().size(), kMaxOutputChunkBytes);
  }
}

TEST(ExecOutbox, InputWindow_OnlyTheNewestWaits) {
  ExecOutbox outbox;
  outbox.PushInputWindow(10);
  outbox.PushInputWindow(20);
  EXPECT_EQ(outbox.size(), 1u);
  EXPECT_EQ(Parse(outbox.Pop()).input_window().limit(), 20u);
}

TEST(ExecOutbox, PiecesThatCannotBeJoined_AreBoundedInNumber) {
  ExecOutbox outbox;
  for (uint64_t offset = 0; !outbox.full(); ++offset) {
    outbox.PushOutput(offset, offset % 2 == 0 ? 1 : 2, Bytes(1));
    ASSERT_LE(outbox.size(), ExecOutbox::kMaxMessages);
  }
  outbox.Pop();
  EXPECT_FALSE(outbox.full());
}

}  // namespace
}  // namespace sandbroker::services
