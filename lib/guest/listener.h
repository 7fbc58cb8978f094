// Where brokers come in: a unix socket and a secret, or a TCP port with TLS and signatures. Hands
// each connection on as a link's socket, and knows by what its ends prove themselves. Agent thread
// only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "lib/guest/link_proof.h"
#include "lib/guest/link_socket.h"
#include "lib/guest/options.h"

namespace sandbroker::guest {

class Listener {
 public:
  using Taker = std::function<void(std::shared_ptr<LinkSocket>)>;

  virtual ~Listener() = default;
  // From now on until Close, which `taker` outlives.
  virtual void Accept(Taker taker) = 0;
  virtual void Close() = 0;
  virtual const LinkProof& proof() const = 0;
  // Anybody of the network, or any program beside the agent, can connect.
  virtual bool open_to_strangers() const = 0;
};

// Listens as `options` say. With --listen-tcp it makes the certificate, and writes the port file.
absl::StatusOr<std::unique_ptr<Listener>> OpenListener(boost::asio::io_context& io,
                                                       const AgentOptions& options,
                                                       Credentials credentials);

}  // namespace sandbroker::guest
