#include "lib/kube/transport.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <utility>

#include "lib/base/strings.h"

namespace sandbroker::kube {
namespace {

using Tcp = Connection::Tcp;
using boost::system::error_code;

// Cuts the connection when the call is over, for as long as it lives.
class CutAtEnd {
 public:
  CutAtEnd(CallEnd& end, Connection* connection) : end_(end) {
    end_.Interrupt([connection] { connection->Cut(); });
  }
  ~CutAtEnd() { end_.Interrupt(nullptr); }
  CutAtEnd(const CutAtEnd&) = delete;
  CutAtEnd& operator=(const CutAtEnd&) = delete;

 private:
  CallEnd& end_;
};

}  // namespace

std::string FormatRequest(const HttpRequest& request, const Access& access,
                          const std::string& token) {
  std::string text =
      StrCat(request.method, " ", access.base_path, request.target, " HTTP/1.1\r\n",
             "Host: ", HostHeader(access), "\r\n",
             "User-Agent: sandbroker/" SANDBROKER_VERSION "\r\n", "Accept: application/json\r\n");
  if (!token.empty()) StrAppend(&text, "Authorization: Bearer ", token, "\r\n");
  if (!request.content_type.empty()) {
    StrAppend(&text, "Content-Type: ", request.content_type, "\r\n");
    StrAppend(&text, "Content-Length: ", request.body.size(), "\r\n");
  }
  StrAppend(&text, "\r\n", request.body);
  return text;
}

Transport::Transport(Scheduler& scheduler, boost::asio::io_context& context, Access access,
                     FileReader read)
    : scheduler_(scheduler),
      context_(context),
      credentials_(scheduler, std::move(access), std::move(read)) {}

// A name is looked up by a thread of Asio's that can't be interrupted: it is left alone when the
// call is over, and its answer then goes nowhere.
Task<Transport::Endpoints> Transport::Resolve(CallEnd& end, std::string* error) {
  const Access& access = credentials_.access();
  error_code not_an_address;
  const auto address = boost::asio::ip::make_address(access.host, not_an_address);
  if (!not_an_address) co_return Endpoints{Tcp::endpoint(address, access.port)};
  const auto resolver = std::make_shared<Tcp::resolver>(context_);
  OneShot<Endpoints> found;
  const auto why = std::make_shared<std::string>();
  resolver->async_resolve(
      access.host, std::to_string(access.port),
      [resolver, found, why](const error_code& code, const Tcp::resolver::results_type& results) {
        Endpoints endpoints;
        for (const auto& result : results) endpoints.push_back(result.endpoint());
        if (code) *why = code.message();
        found.Set(std::move(endpoints));
      });
  end.Interrupt([found] { found.Set(Endpoints()); });
  Endpoints endpoints = co_await found.Wait();
  end.Interrupt(nullptr);
  if (endpoints.empty()) {
    *error = StrCat("look up ", access.host, ": ", end.over() ? end.text() : why->c_str());
  }
  co_return endpoints;
}

Task<std::shared_ptr<Connection>> Transport::Dial(CallEnd& end, std::string* error) {
  if (!credentials_.status().ok()) {
    *error = FromAbsl(credentials_.status().message());
    co_return nullptr;
  }
  const Endpoints endpoints = co_await Resolve(end, error);
  const Access& access = credentials_.access();
  const std::string whom = access.insecure              ? ""
                           : access.server_name.empty() ? access.host
                                                        : access.server_name;
  for (const Tcp::endpoint& endpoint : endpoints) {
    if (end.over()) {
      *error = end.text();
      break;
    }
    auto connection = std::make_shared<Connection>(context_, credentials_.Tls());
    const CutAtEnd cut(end, connection.get());
    std::string broken = co_await connection->Open(endpoint, whom);
    if (broken.empty() && !end.over()) co_return connection;
    *error = end.over() ? StrCat(end.text(), " (connecting)") : std::move(broken);
  }
  co_return nullptr;
}

Task<bool> Transport::ReadOn(std::shared_ptr<Connection> connection, HttpAnswer* answer,
                             Exchanged* exchanged, CallEnd& end) {
  const CutAtEnd cut(end, connection.get());
  const std::string piece = co_await connection->Read();
  if (!piece.empty()) {
    exchanged->any_answer = true;
    if (answer->Feed(piece)) co_return true;
    exchanged->hostile = true;
    exchanged->error = answer->error();
    co_return false;
  }
  if (connection->ended_properly() && answer->FeedEnd()) co_return true;
  exchanged->error = end.over() ? end.text() : connection->error();
  if (!end.over() && exchanged->any_answer) exchanged->error += ", in the middle of an answer";
  co_return false;
}

Task<void> Transport::Begin(std::shared_ptr<Connection> connection, const HttpRequest& request,
                            HttpAnswer* answer, Exchanged* exchanged, CallEnd& end) {
  const std::string bytes = FormatRequest(request, credentials_.access(), credentials_.Token());
  const WallTime before = scheduler_.WallNow();
  ++connection->carried;
  {
    const CutAtEnd cut(end, connection.get());
    const size_t sent = co_await connection->Write(bytes);
    exchanged->sent = sent == bytes.size();
  }
  if (!exchanged->sent) {
    exchanged->error = end.over() ? end.text() : connection->error();
    co_return;
  }
  while (!answer->head_done()) {
    const bool more = co_await ReadOn(connection, answer, exchanged, end);
    if (!more) co_return;
  }
  exchanged->status = answer->status();
  exchanged->retry_after = answer->Header("Retry-After");
  exchanged->date = answer->Header("Date");
  if (const auto date = ParseHttpDate(exchanged->date)) {
    offset_.Add(*date, before, scheduler_.WallNow());
  }
}

Task<Exchanged> Transport::Exchange(std::shared_ptr<Connection> connection,
                                    const HttpRequest& request, size_t max_body, CallEnd& end,
                                    bool* reusable) {
  Exchanged exchanged;
  HttpAnswer answer(max_body);
  *reusable = false;
  co_await Begin(connection, request, &answer, &exchanged, end);
  if (!answer.head_done()) co_return exchanged;
  if (!answer.Feed("")) {  // the body as far as it came with the head
    exchanged.hostile = true;
    exchanged.error = answer.error();
    co_return exchanged;
  }
  while (!answer.done()) {
    const bool more = co_await ReadOn(connection, &answer, &exchanged, end);
    if (!more) co_return exchanged;
  }
  exchanged.whole = true;
  exchanged.body = answer.TakeBody();
  *reusable = answer.keep_alive() && !end.over();
  co_return exchanged;
}

}  // namespace sandbroker::kube
