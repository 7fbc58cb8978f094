// What a link says when it ends: who answered there broke the rules, or the connection just went.
#pragma once

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "lib/wire/frame.h"

namespace sandbroker::link {

inline absl::Status Unreachable(std::string_view what) {
  return MakeError(Reason::kAgentUnreachable, StrCat("agent link: ", what));
}

// No agent was met: `how` is one of the values that AgentDialer::Dial names.
inline absl::Status NotMet(std::string_view how, std::string_view what) {
  ErrorDetail detail;
  detail.reason = Reason::kAgentUnreachable;
  detail.metadata["connection"] = how;
  return MakeError(std::move(detail), StrCat("agent link: ", what));
}

// A connection that goes, as it may at any time, says nothing about who answered there.
inline absl::Status Broken(std::string_view what, const boost::system::error_code& error) {
  namespace http = boost::beast::http;
  const bool gone = error == boost::asio::error::eof || error == http::error::end_of_stream ||
                    error == http::error::partial_message ||
                    error == boost::asio::ssl::error::stream_truncated ||
                    error.category() == boost::system::system_category();
  const std::string text = StrCat(what, ": ", error.message());
  return gone ? NotMet("gone", text) : Unreachable(text);
}

// The same before a word of the link was said: what did answer there is no agent.
inline absl::Status NoAgent(std::string_view what, const boost::system::error_code& error) {
  const absl::Status broken = Broken(what, error);
  if (DetailOf(broken).metadata.count("connection") != 0) return broken;
  return NotMet("foreign", StrCat(what, ": ", error.message()));
}

inline absl::Status BadProto(const wire::Frame& frame) {
  return Unreachable(StrCat("payload of ", wire::KindName(frame.kind), " can't be read"));
}

}  // namespace sandbroker::link
