#include "lib/guest/listener.h"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdio>
#include <fstream>
#include <utility>

#include "lib/base/strings.h"
#include "lib/base/tls.h"
#include "lib/guest/execution.h"

namespace sandbroker::guest {
namespace {

namespace ip = boost::asio::ip;
using boost::asio::local::stream_protocol;
using boost::system::error_code;

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr int kBacklog = 128;

absl::Status Failed(const error_code& error) {
  return absl::InternalError(StrCat("listening socket: ", error.message()));
}

template <class Protocol>
class ListenerOf : public Listener {
 public:
  using Acceptor =
      boost::asio::basic_socket_acceptor<Protocol, boost::asio::io_context::executor_type>;

  ListenerOf(boost::asio::io_context& io, std::unique_ptr<LinkProof> proof)
      : acceptor_(io), io_(io), pause_(io), proof_(std::move(proof)) {}

  void Accept(Taker taker) override {
    taker_ = std::move(taker);
    AcceptNext();
  }
  void Close() override {
    acceptor_.close();
    pause_.cancel();
  }
  const LinkProof& proof() const override { return *proof_; }

 protected:
  virtual std::shared_ptr<LinkSocket> Wrap(SocketOf<Protocol> socket) = 0;

  Acceptor acceptor_;

 private:
  void AcceptNext() {
    acceptor_.async_accept(io_, [this](error_code error, SocketOf<Protocol> socket) {
      if (error == boost::asio::error::operation_aborted) return;
      if (!error) {
        taker_(Wrap(std::move(socket)));
        return AcceptNext();
      }
      // Out of descriptors, most likely: some will come back.
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code stopped) {
        if (!stopped) AcceptNext();
      });
    });
  }

  boost::asio::io_context& io_;
  AgentTimer pause_;
  const std::unique_ptr<LinkProof> proof_;
  Taker taker_;
};

class UnixListener final : public ListenerOf<stream_protocol> {
 public:
  using ListenerOf::ListenerOf;
  bool open_to_strangers() const override { return false; }

  absl::Status Listen(const AgentOptions& options) {
    error_code error;
    if (options.listen_fd >= 0) {
      acceptor_.assign(stream_protocol(), options.listen_fd, error);
    } else {
      acceptor_.open(stream_protocol(), error);
      if (!error) acceptor_.bind({options.listen_unix}, error);
    }
    if (!error) acceptor_.listen(kBacklog, error);
    return error ? Failed(error) : absl::OkStatus();
  }

 private:
  std::shared_ptr<LinkSocket> Wrap(UnixSocket socket) override {
    return MakeLinkSocket(std::move(socket));
  }
};

class TlsListener final : public ListenerOf<ip::tcp> {
 public:
  TlsListener(boost::asio::io_context& io, std::unique_ptr<LinkProof> proof)
      : ListenerOf(io, std::move(proof)), tls_(boost::asio::ssl::context::tlsv13_server) {}
  bool open_to_strangers() const override { return true; }

  absl::Status Listen(const AgentOptions& options, const Identity& identity) {
    if (absl::Status status = SetUpTlsServer(tls_.native_handle(), identity); !status.ok()) {
      return status;
    }
    error_code error;
    const ip::tcp::endpoint where(ip::make_address(options.listen_tcp.host, error),
                                  options.listen_tcp.port);
    if (!error) acceptor_.open(where.protocol(), error);
    // An agent that is started again finds the port as the last one left it.
    if (!error) acceptor_.set_option(ip::tcp::acceptor::reuse_address(true), error);
    // "::" means both families, whatever the image's sysctl says.
    if (!error && where.address().is_v6()) acceptor_.set_option(ip::v6_only(false), error);
    if (!error) acceptor_.bind(where, error);
    if (!error) acceptor_.listen(kBacklog, error);
    if (error) return Failed(error);
    return options.port_file.empty() ? absl::OkStatus() : WritePort(options.port_file);
  }

 private:
  absl::Status WritePort(const std::string& path) {
    const std::string temporary = path + ".tmp";
    std::ofstream(temporary) << acceptor_.local_endpoint() << "\n";
    if (std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
    return absl::InternalError(StrCat("can't write port file ", path));
  }

  std::shared_ptr<LinkSocket> Wrap(TcpSocket socket) override {
    error_code ignored;
    socket.set_option(ip::tcp::no_delay(true), ignored);
    return MakeLinkSocket(std::move(socket), tls_);
  }

  boost::asio::ssl::context tls_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> OpenListener(boost::asio::io_context& io,
                                                       const AgentOptions& options,
                                                       Credentials credentials) {
  if (!options.listen_tcp.host.empty()) {
    const Identity identity = MakeIdentity();
    auto proof = ProveBySignature(std::move(credentials.broker_keys), identity);
    auto listener = std::make_unique<TlsListener>(io, std::move(proof));
    const absl::Status status = listener->Listen(options, identity);
    if (!status.ok()) return status;
    return listener;
  }
  auto listener = std::make_unique<UnixListener>(io, ProveBySecret(std::move(credentials.secret)));
  const absl::Status status = listener->Listen(options);
  if (!status.ok()) return status;
  return listener;
}

}  // namespace sandbroker::guest
