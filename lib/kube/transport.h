// How requests reach the API server: dials it, writes a request, reads its answer, and keeps what
// is learnt on the way (the token in use, the server's clock). One request over one connection;
// nothing is tried again here. Loop thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/scheduler.h"
#include "lib/async/task.h"
#include "lib/kube/call_end.h"
#include "lib/kube/connection.h"
#include "lib/kube/credentials.h"
#include "lib/kube/http_answer.h"
#include "lib/kube/outcome.h"

namespace sandbroker::kube {

struct HttpRequest {
  std::string method;
  std::string target;
  std::string content_type = {};  // of the body, if there is one
  std::string body = {};
};

// The request's bytes, its body included.
std::string FormatRequest(const HttpRequest& request, const Access& access,
                          const std::string& token);

class Transport {
 public:
  Transport(Scheduler& scheduler, boost::asio::io_context& context, Access access, FileReader read);

  Scheduler& scheduler() { return scheduler_; }
  Credentials& credentials() { return credentials_; }
  std::optional<Duration> clock_offset() const { return offset_.offset(); }

  // A new connection, or null and why.
  Task<std::shared_ptr<Connection>> Dial(CallEnd& end, std::string* error);
  // A whole request and its whole answer. `*reusable`: the connection may carry another one.
  Task<Exchanged> Exchange(std::shared_ptr<Connection> connection, const HttpRequest& request,
                           size_t max_body, CallEnd& end, bool* reusable);
  // The same up to the answer's head; what follows is the caller's to read.
  Task<void> Begin(std::shared_ptr<Connection> connection, const HttpRequest& request,
                   HttpAnswer* answer, Exchanged* exchanged, CallEnd& end);
  // Reads on. False: nothing more will come; `exchanged` knows why unless the answer is whole.
  Task<bool> ReadOn(std::shared_ptr<Connection> connection, HttpAnswer* answer,
                    Exchanged* exchanged, CallEnd& end);

 private:
  using Endpoints = std::vector<Connection::Tcp::endpoint>;
  Task<Endpoints> Resolve(CallEnd& end, std::string* error);

  Scheduler& scheduler_;
  boost::asio::io_context& context_;
  Credentials credentials_;
  ClockOffset offset_;
};

}  // namespace sandbroker::kube
