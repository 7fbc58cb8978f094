#include "lib/kube/watch_stream.h"

#include <boost/json/parse.hpp>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

namespace json = boost::json;

constexpr size_t kMaxRefusal = 64 * 1024;

json::object ParseEvent(const std::string& line) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  boost::system::error_code error;
  json::value value = json::parse({line.data(), line.size()}, error, {}, options);
  return error || !value.is_object() ? json::object() : std::move(value.get_object());
}

}  // namespace

WatchStream::WatchStream(Transport& transport, CallEnd& end)
    : transport_(transport), end_(end), answer_(kMaxRefusal) {}

Task<Result> WatchStream::Open(std::string target) {
  connection_ = co_await transport_.Dial(end_, &exchanged_.error);
  if (!connection_) co_return ToResult(exchanged_, false);
  const HttpRequest request{"GET", std::move(target)};
  co_await transport_.Begin(connection_, request, &answer_, &exchanged_, end_);
  if (!answer_.head_done()) co_return ToResult(exchanged_, false);
  if (answer_.status() == 200) answer_.Endless();
  // What came with the head waits in the parser.
  exchanged_.hostile = !answer_.Feed("");
  if (exchanged_.hostile) exchanged_.error = answer_.error();
  if (answer_.status() == 200) {
    if (!lines_.Feed(answer_.TakeBody())) exchanged_.hostile = true;
    Result opened;
    opened.outcome = Outcome::kDone;
    opened.http_status = 200;
    co_return opened;
  }
  while (!exchanged_.hostile && !answer_.done()) {
    const bool more = co_await transport_.ReadOn(connection_, &answer_, &exchanged_, end_);
    if (!more) co_return ToResult(exchanged_, false);
  }
  exchanged_.whole = answer_.done();
  exchanged_.body = answer_.TakeBody();
  Result refused = ToResult(exchanged_, false);
  // Another 2xx than 200 is no watch.
  if (refused.ok()) refused.outcome = Outcome::kUnknown;
  if (refused.Is(401)) transport_.credentials().Reread();
  co_return refused;
}

Task<bool> WatchStream::ReadOn(Duration silence) {
  if (exchanged_.hostile || answer_.done()) {
    clean_ = !exchanged_.hostile;
    co_return false;
  }
  const bool more = co_await transport_.ReadOn(connection_, &answer_, &exchanged_, end_);
  if (!more) co_return false;
  end_.Extend(silence);
  if (lines_.Feed(answer_.TakeBody())) co_return true;
  exchanged_.hostile = true;
  co_return false;
}

Task<std::optional<json::object>> WatchStream::Next(Duration silence) {
  for (;;) {
    if (const auto line = lines_.Next()) co_return ParseEvent(*line);
    const bool more = co_await ReadOn(silence);
    if (more) continue;
    // What is too large, or no HTTP, is an event that can't be understood.
    if (exchanged_.hostile) co_return json::object();
    co_return std::nullopt;
  }
}

}  // namespace sandbroker::kube
