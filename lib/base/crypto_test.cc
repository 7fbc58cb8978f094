#include "lib/base/crypto.h"

#include <gtest/gtest.h>

namespace sandbroker {
namespace {

TEST(Crypto, Sha256_MatchesThePublishedVector) {
  EXPECT_EQ(HexEncode(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Crypto, Hmac_MatchesRfc4231Case2) {
  EXPECT_EQ(HexEncode(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Crypto, Base64Url_RoundTripsEveryLength) {
  for (size_t n = 0; n < 70; ++n) {
    const std::string data = RandomBytes(n);
    const std::string text = Base64UrlEncode(data);
    EXPECT_EQ(text.find_first_of("+/="), std::string::npos);
    EXPECT_EQ(Base64UrlDecode(text), data);
  }
}

TEST(Crypto, Base64Url_RefusesWhatIsNotCanonical) {
  EXPECT_FALSE(Base64UrlDecode("A"));
  EXPECT_FALSE(Base64UrlDecode("AA=="));
  EXPECT_FALSE(Base64UrlDecode("A+"));
  EXPECT_TRUE(Base64UrlDecode("AA"));
  EXPECT_FALSE(Base64UrlDecode("AB"));  // the same byte, another name
}

TEST(Crypto, FieldList_KeepsFieldBordersApart) {
  EXPECT_NE(FieldList("1").Add("ab").Add("c").Hash(), FieldList("1").Add("a").Add("bc").Hash());
  // A separator would do for these two; no separator does for fields that may hold any byte.
  const std::string nul(1, '\0');
  EXPECT_NE(FieldList("1").Add("a" + nul + "b").Hash(), FieldList("1").Add("a").Add("b").Hash());
  EXPECT_NE(FieldList("1").Add("a" + nul).Add("b").Hash(),
            FieldList("1").Add("a").Add(nul + "b").Hash());
  EXPECT_NE(FieldList("1").Add("").Add("").Hash(), FieldList("1").Add("").Hash());
  EXPECT_NE(FieldList("1").AddAll({"a", "b"}).Hash(), FieldList("1").Add("a").Add("b").Hash());
  EXPECT_NE(FieldList("1").Add("a").Hash(), FieldList("2").Add("a").Hash());
}

TEST(Crypto, ConstantTimeEquals_ComparesLengthToo) {
  EXPECT_TRUE(ConstantTimeEquals("ab", "ab"));
  EXPECT_FALSE(ConstantTimeEquals("ab", "ac"));
  EXPECT_FALSE(ConstantTimeEquals("ab", "abc"));
}

}  // namespace
}  // namespace sandbroker
