// The agent over its link: the handshake, and the ordinary life of an execution.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/agent_process.h"
#include "tests/support/raw_link_client.h"

namespace sandbroker::test {
namespace {

class AgentBasics : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(client_.Open(agent_.socket_path(), agent_.secret())); }
  agent::Start Shell(const std::string& id, const std::string& script) {
    return MakeStart(id, {"sh", "-c", script});
  }
  AgentProcess agent_;
  RawLinkClient client_;
};

TEST_F(AgentBasics, Hello_NamesVersionsBootIdAndLimits) {
  EXPECT_EQ(client_.hello().version_min(), 1u);
  EXPECT_EQ(client_.hello().version_max(), 1u);
  EXPECT_EQ(client_.hello().boot_id().size(), 32u);
  EXPECT_EQ(client_.hello().limits().max_executions(), 4096u);
  EXPECT_EQ(client_.hello().limits().output_budget_bytes(), 256u << 20);
}

TEST_F(AgentBasics, T15_Outputs_StayApartAndExitCodeArrives) {
  const auto& record =
      client_.Finish(client_.Start(Shell("e", "echo out; echo err >&2; echo out2; exit 7")));
  ASSERT_TRUE(record.ready);
  EXPECT_GT(record.ready->pid(), 0);
  EXPECT_EQ(record.ready->boot_id(), client_.hello().boot_id());
  ASSERT_TRUE(record.ended) << (record.reset ? record.reset->message() : "nothing came");
  EXPECT_EQ(record.ended->exited().code(), 7);
  EXPECT_TRUE(record.ended->has_exited());
  EXPECT_EQ(record.out, "out\nout2\n");
  EXPECT_EQ(record.err, "err\n");
  EXPECT_EQ(record.ended->final_offset(), record.bytes.size());
  EXPECT_TRUE(record.ended->output_complete());
  EXPECT_FALSE(record.ended->output_open());
  EXPECT_GT(record.ended->duration_ns(), 0);
  EXPECT_TRUE(record.offsets_fit);
}

}  // namespace
}  // namespace sandbroker::test
