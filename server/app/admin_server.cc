#include "server/app/admin_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "lib/base/strings.h"
#include "lib/obs/log.h"

namespace sandbroker::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kMaxHeaderBytes = 8 * 1024;
constexpr uint64_t kMaxBodyBytes = 1024;
// After a failed accept, which is mostly a lack of descriptors.
constexpr std::chrono::milliseconds kPause(100);

// What to tell a peer whose request could not be read; unknown = nothing, it has gone.
http::status ReadErrorStatus(error_code error) {
  if (error == http::error::header_limit) return http::status::request_header_fields_too_large;
  if (error == http::error::body_limit) return http::status::payload_too_large;
  if (error == http::error::end_of_stream || error == http::error::partial_message) {
    return http::status::unknown;
  }
  const bool malformed = error.category() == make_error_code(http::error::bad_method).category();
  return malformed ? http::status::bad_request : http::status::unknown;
}

http::response<http::string_body> Plain(http::status status, std::string body) {
  http::response<http::string_body> response(status, 11);
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

}  // namespace

AdminServer::AdminServer(asio::io_context& context, TaskScope& scope, AdminSettings settings,
                         std::function<std::string()> metrics, std::function<bool()> ready)
    : scope_(scope),
      settings_(settings),
      metrics_(std::move(metrics)),
      ready_(std::move(ready)),
      acceptor_(context),
      pause_(context) {}

absl::Status AdminServer::Open(const config::Address& address) {
  using asio::ip::tcp;
  const tcp::endpoint endpoint(asio::ip::make_address(address.host), address.port);
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      StrCat("listen for admin on ", address.ToString(), ": ", error.message()));
}

std::string AdminServer::address() const {
  error_code ignored;
  const auto endpoint = acceptor_.local_endpoint(ignored);
  return config::Address{endpoint.address().to_string(), endpoint.port(),
                         endpoint.address().is_v6()}
      .ToString();
}

void AdminServer::Start() { scope_.Spawn("accept for admin", AcceptAll()); }

void AdminServer::Stop() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (const auto& stream : connections_) stream->close();
}

Task<void> AdminServer::AcceptAll() {
  while (acceptor_.is_open()) {
    auto [error, socket] = co_await acceptor_.async_accept(kNoThrow);
    if (error) {
      if (!acceptor_.is_open()) break;
      obs::Log(obs::Level::kWarning, "accept for admin failed", {{"why", error.message()}});
      pause_.expires_after(kPause);
      co_await pause_.async_wait(kNoThrow);
    } else if (connections_.size() < settings_.max_connections) {
      auto stream = std::make_shared<Stream>(std::move(socket));
      connections_.insert(stream);
      scope_.Spawn("admin connection", Serve(std::move(stream)));
    }
  }
}

Task<void> AdminServer::Serve(std::shared_ptr<Stream> stream) {
  co_await ServeRequests(*stream);
  error_code ignored;
  stream->socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  connections_.erase(stream);
}

Task<void> AdminServer::ServeRequests(Stream& stream) {
  beast::flat_buffer buffer(kMaxHeaderBytes + kMaxBodyBytes);
  for (bool more = true; more && acceptor_.is_open();) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(kMaxBodyBytes);
    stream.expires_after(settings_.request_bound);
    const auto [error, size] = co_await http::async_read(stream, buffer, parser, kNoThrow);
    const http::status refusal = error ? ReadErrorStatus(error) : http::status::ok;
    if (refusal == http::status::unknown) co_return;
    Response response = error ? Plain(refusal, "bad request\n") : Answer(parser.get());
    more = !error && parser.get().keep_alive();
    response.keep_alive(more);
    stream.expires_after(settings_.request_bound);
    const auto [write_error, written] = co_await http::async_write(stream, response, kNoThrow);
    if (write_error) co_return;
  }
}

AdminServer::Response AdminServer::Answer(const Request& request) const {
  std::string_view path(request.target().data(), request.target().size());
  path = path.substr(0, path.find('?'));
  if (path != "/metrics" && path != "/healthz" && path != "/readyz") {
    return Plain(http::status::not_found, "not found\n");
  }
  if (request.method() != http::verb::get) {
    Response response = Plain(http::status::method_not_allowed, "only GET\n");
    response.set(http::field::allow, "GET");
    return response;
  }
  if (path == "/healthz") return Plain(http::status::ok, "ok\n");
  if (path == "/readyz") {
    return ready_() ? Plain(http::status::ok, "ok\n")
                    : Plain(http::status::service_unavailable, "not ready\n");
  }
  Response response = Plain(http::status::ok, metrics_());
  response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  return response;
}

}  // namespace sandbroker::app
