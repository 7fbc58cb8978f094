// What a link says when it ends: who answered there broke the rules, or the connection just went.
#pragma once

#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>
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

// A connection that goes, as it may at any time, says nothing about who answered there.
inline absl::Status Broken(std::string_view what, const boost::system::error_code& error) {
  namespace http = boost::beast::http;
  ErrorDetail detail;
  detail.reason = Reason::kAgentUnreachable;
  const bool gone = error == boost::asio::error::eof || error == http::error::end_of_stream ||
                    error == http::error::partial_message ||
                    error.category() == boost::system::system_category();
  if (gone) detail.metadata["connection"] = "gone";
  return MakeError(std::move(detail), StrCat("agent link: ", what, ": ", error.message()));
}

inline absl::Status BadProto(const wire::Frame& frame) {
  return Unreachable(StrCat("payload of ", wire::KindName(frame.kind), " can't be read"));
}

}  // namespace sandbroker::link
