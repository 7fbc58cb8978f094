// The API's unix socket. gRPC would let anyone in who can open the file; here the peer's uid is
// asked for first (SO_PEERCRED): ours or root, nobody else. What is let in is handed over as a
// connected descriptor. Loop thread, except Open.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lib/async/task.h"
#include "lib/async/task_scope.h"
#include "lib/base/fd.h"

namespace sandbroker::app {

class UnixListener {
 public:
  // `hand_over` gets non-blocking descriptors of peers that were let in.
  UnixListener(boost::asio::io_context& context, TaskScope& scope,
               std::function<void(UniqueFd)> hand_over);
  ~UnixListener();

  // Makes the socket, mode 0600, and listens; connections wait until Start. A file left by a
  // broker that is gone is replaced; one that answers is not. Before the loop runs.
  absl::Status Open(const std::string& path);
  void Start();
  // No further connections; those handed over stay. Removes the file. Idempotent.
  void Stop();

 private:
  using Protocol = boost::asio::local::stream_protocol;
  Task<void> AcceptAll();
  void Admit(Protocol::socket socket);

  TaskScope& scope_;
  const std::function<void(UniqueFd)> hand_over_;
  Protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::string path_;
};

}  // namespace sandbroker::app
