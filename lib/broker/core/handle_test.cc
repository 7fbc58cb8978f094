#include "lib/broker/core/handle.h"

#include <gtest/gtest.h>

#include "lib/base/status.h"

namespace sandbroker::broker {
namespace {

const std::string kKey(32, 'k');

TEST(Handle, Decode_ReturnsWhatWasEncoded) {
  const Handle handle{"tenant", 't', "local", "default", "uid-1", "boot-1"};
  const std::string text = EncodeHandle(handle, kKey);
  EXPECT_EQ(text.rfind("sb1_", 0), 0u);
  const auto got = DecodeHandle(text, kKey);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->tenant, "tenant");
  EXPECT_EQ(got->kind, 't');
  EXPECT_EQ(got->name, "default");
  EXPECT_EQ(got->uid, "uid-1");
  EXPECT_EQ(got->incarnation, "boot-1");
}

TEST(Handle, EveryChangedCharacter_IsNotFound) {
  const std::string text = EncodeHandle({"t", 't', "local", "p", "u", "b"}, kKey);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string forged = text;
    forged[i] = forged[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(ReasonOf(DecodeHandle(forged, kKey).status()), Reason::kSandboxNotFound) << i;
  }
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(DecodeHandle(text.substr(0, n), kKey).ok()) << n;
  }
  EXPECT_FALSE(DecodeHandle(text, std::string(32, 'x')).ok());
  EXPECT_FALSE(DecodeHandle(std::string(5000, 'A'), kKey).ok());
}

}  // namespace
}  // namespace sandbroker::broker
