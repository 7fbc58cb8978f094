// HTTP for the operator: GET /metrics, /healthz (the loop turns) and /readyz (serving and not
// draining). Small and bounded: 64 connections, 8 KiB of header, no body to speak of, some seconds
// a request. Loop thread, except Open.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/clock.h"
#include "lib/config/address.h"

namespace sandbroker::app {

struct AdminSettings {
  Duration request_bound = std::chrono::seconds(5);
  size_t max_connections = 64;
};

class AdminServer {
 public:
  // `metrics` renders them; `ready` says whether calls are taken.
  AdminServer(boost::asio::io_context& context, TaskScope& scope, AdminSettings settings,
              std::function<std::string()> metrics, std::function<bool()> ready);

  // Binds and listens; connections wait until Start. Before the loop runs.
  absl::Status Open(const config::Address& address);
  // With the port that was found for port 0.
  std::string address() const;
  void Start();
  // Closes everything. Idempotent.
  void Stop();

 private:
  using Stream = boost::beast::tcp_stream;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  Task<void> AcceptAll();
  Task<void> Serve(std::shared_ptr<Stream> stream);
  // Request after request, until one of the two wants no more.
  Task<void> ServeRequests(Stream& stream);
  Response Answer(const Request& request) const;

  TaskScope& scope_;
  const AdminSettings settings_;
  const std::function<std::string()> metrics_;
  const std::function<bool()> ready_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::set<std::shared_ptr<Stream>> connections_;
};

}  // namespace sandbroker::app
