#include "tests/support/interposer.h"

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/tls.h"

namespace sandbroker::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Tls = asio::ssl::stream<tcp::socket>;

template <class Stream>
class PairOf final : public Interposer::Pair, public std::enable_shared_from_this<PairOf<Stream>> {
 public:
  PairOf(Stream near, Stream far) : near_(std::move(near)), far_(std::move(far)) {}

  void Start(const tcp::endpoint& target) {
    boost::beast::get_lowest_layer(far_).async_connect(
        target, [self = this->shared_from_this()](error_code error) {
          if (error) return self->Close();
          self->Greet();
        });
  }
  void Close() override {
    error_code ignored;
    boost::beast::get_lowest_layer(near_).close(ignored);
    boost::beast::get_lowest_layer(far_).close(ignored);
  }

 private:
  void Greet() {
    if constexpr (std::is_same_v<Stream, Tls>) {
      far_.async_handshake(Tls::client, [self = this->shared_from_this()](error_code error) {
        if (error) return self->Close();
        self->near_.async_handshake(Tls::server, [self](error_code failed) {
          if (failed) return self->Close();
          self->Pump();
        });
      });
    } else {
      Pump();
    }
  }
  void Pump() {
    Move(near_, far_, &up_);
    Move(far_, near_, &down_);
  }
  void Move(Stream& from, Stream& to, std::array<char, 16384>* bytes) {
    from.async_read_some(asio::buffer(*bytes), [self = this->shared_from_this(), &from, &to, bytes](
                                                   error_code error, size_t got) {
      if (error) return self->Close();
      asio::async_write(to, asio::buffer(*bytes, got),
                        [self, &from, &to, bytes](error_code failed, size_t) {
                          if (failed) return self->Close();
                          self->Move(from, to, bytes);
                        });
    });
  }

  Stream near_;
  Stream far_;
  std::array<char, 16384> up_;
  std::array<char, 16384> down_;
};

}  // namespace

Interposer::Interposer(uint16_t port, std::optional<Identity> own, int drops)
    : server_tls_(asio::ssl::context::tlsv13_server),
      client_tls_(asio::ssl::context::tlsv13_client),
      target_(asio::ip::address_v4::loopback(), port),
      reads_along_(own.has_value()),
      drops_(drops),
      acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
      port_(acceptor_.local_endpoint().port()) {
  if (own) SANDBROKER_CHECK(SetUpTlsServer(server_tls_.native_handle(), *own).ok());
  Accept();
  thread_ = std::thread([this] { io_.run(); });
}

Interposer::~Interposer() {
  io_.stop();
  thread_.join();
}

void Interposer::Accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error) return;
    if (drops_-- <= 0) Serve(std::move(socket));
    Accept();
  });
}

void Interposer::Serve(tcp::socket socket) {
  if (reads_along_) {
    auto pair =
        std::make_shared<PairOf<Tls>>(Tls(std::move(socket), server_tls_), Tls(io_, client_tls_));
    pairs_.push_back(pair);
    pair->Start(target_);
  } else {
    auto pair = std::make_shared<PairOf<tcp::socket>>(std::move(socket), tcp::socket(io_));
    pairs_.push_back(pair);
    pair->Start(target_);
  }
}

void Interposer::Cut() {
  asio::post(io_, [this] {
    for (const auto& weak : std::exchange(pairs_, {})) {
      if (const auto pair = weak.lock()) pair->Close();
    }
  });
}

}  // namespace sandbroker::test
