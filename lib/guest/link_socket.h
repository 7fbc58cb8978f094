// The WebSocket of one link: accepts the upgrade, hands whole messages up, and takes one outgoing
// frame after the other, without copying output. Knows frames but no protocol. Agent thread only.
#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "lib/base/bytes.h"
#include "lib/wire/frame.h"

namespace sandbroker::guest {

using UnixSocket = boost::asio::basic_stream_socket<boost::asio::local::stream_protocol,
                                                    boost::asio::io_context::executor_type>;

struct DataOut {
  wire::DataHeader header;
  SharedBytes bytes;
};
using Outgoing = std::variant<std::string, DataOut>;

class LinkSocketHandler {
 public:
  virtual ~LinkSocketHandler() = default;
  virtual void OnUpgraded() = 0;
  // Some bytes have come: the peer lives.
  virtual void OnLife() = 0;
  // False: read no further until ResumeReading.
  virtual bool OnMessage(std::string_view message) = 0;
  // What to write next, if anything.
  virtual std::optional<Outgoing> NextOutgoing() = 0;
  // The last callback.
  virtual void OnClosed() = 0;
};

class LinkSocket : public std::enable_shared_from_this<LinkSocket> {
 public:
  // `handler` outlives the socket or calls Abandon.
  LinkSocket(UnixSocket socket, LinkSocketHandler* handler);

  void Start();
  // Something may be there to write.
  void Kick();
  void ResumeReading();
  // Writes what NextOutgoing still gives, then closes. Nothing is read any more.
  void CloseAfterWrites();
  // Closes at once; no callback afterwards.
  void Abandon();

 private:
  void OnRequest(boost::system::error_code error);
  void Refuse(std::string why);
  void Read();
  void Write(Outgoing outgoing);
  void OnWritten(boost::system::error_code error);
  void Close();

  boost::beast::websocket::stream<UnixSocket, false> websocket_;
  LinkSocketHandler* handler_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> refusal_;
  Outgoing writing_;
  bool upgraded_ = false;
  bool write_in_flight_ = false;
  bool reading_ = false;
  bool closing_ = false;
};

}  // namespace sandbroker::guest
