// The floors: what each leg of the product's path costs alone, against the servers of
// floor_servers.h. Every call is one round and adds to its samples. One thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sandbroker/v1/broker.grpc.pb.h"
#include "tools/bench/child.h"
#include "tools/bench/samples.h"

namespace sandbroker::bench {

class Floors {
 public:
  // `dir` holds the socket; `spawner` is the static sandbroker-bench-spawner.
  Floors(const std::string& dir, const std::string& spawner);

  // Microseconds each.
  void UnaryEcho(int count);
  void BidiEcho(int count);
  void WebSocketEcho(int count);
  void Spawn(int count);
  // One of each of the three after another: what the legs cost when each finds the caches and the
  // processors as another left them, which is how a Run meets them.
  void LegsInTurn(int count);
  // `count` programs started at once until the last has ended.
  void SpawnAtOnce(int count);
  // A static program inside bubblewrap, until its first byte.
  void BubblewrapStart(int count);
  // MB/s over `chunks` of 64 KiB.
  void PipeStream(uint64_t chunks);
  void WebSocketStream(uint64_t chunks);
  void GrpcStream(uint64_t chunks);

  Samples unary, bidi, websocket, spawn, legs_in_turn, spawn_at_once, bubblewrap;
  Samples pipe_stream, websocket_stream, grpc_stream;

 private:
  using Local = boost::asio::local::stream_protocol;

  // One round of a leg.
  void CallUnary();
  void EchoOverWebSocket();
  // Microseconds that the spawner says its next program took.
  double SpawnedIn();

  Child grpc_server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SandboxBroker::Stub> stub_;

  Child websocket_server_;
  boost::asio::io_context context_;
  boost::beast::websocket::stream<Local::socket> socket_{context_};
  boost::beast::flat_buffer buffer_;

  std::vector<std::string> spawner_command_;
  Child spawner_;
  Child pipe_;
  std::vector<char> chunk_;
};

}  // namespace sandbroker::bench
