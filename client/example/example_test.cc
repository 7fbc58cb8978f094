// The example is run as it stands, against a fake broker.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "client/testing/fake_broker.h"

namespace sandbroker::client {
namespace {

TEST(Example, PrintsWhatTheProgramPrintedAndReleases) {
  testing::FakeBroker broker;
  const std::string command = std::string(SANDBROKER_EXAMPLE) + " " + broker.address();
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 256> buffer;
  while (size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_TRUE(output.starts_with("hello from the sandbox\nended: exited")) << output;
  EXPECT_EQ(broker.record().released.size(), 1u);
}

}  // namespace
}  // namespace sandbroker::client
