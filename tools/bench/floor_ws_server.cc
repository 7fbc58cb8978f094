// The WebSocket floor, as the link is set up: server unmasked, one frame a message, write buffer as
// large as a message. Blocking calls on one thread: no event loop is faster than none. The pipe
// floor is here, too.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/child.h"
#include "tools/bench/floor_servers.h"

namespace sandbroker::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Local = asio::local::stream_protocol;
using Socket = beast::websocket::stream<Local::socket>;

constexpr std::string_view kStream = "stream ";

// Until the peer closes, which Beast reports as an error.
void ServeConnection(Socket& socket, const std::vector<char>& chunk) {
  beast::error_code error;
  socket.accept(error);
  beast::flat_buffer buffer;
  while (!error) {
    socket.read(buffer, error);
    if (error) return;
    const std::string_view message(static_cast<const char*>(buffer.data().data()), buffer.size());
    if (message.substr(0, kStream.size()) != kStream) {
      socket.write(buffer.data(), error);
    } else {
      const std::string count(message.substr(kStream.size()));
      for (uint64_t left = std::strtoull(count.c_str(), nullptr, 10); left > 0 && !error; --left) {
        socket.write(asio::buffer(chunk), error);
      }
    }
    buffer.consume(buffer.size());
  }
}

}  // namespace

int ServeWebSocket(const std::string& path) {
  const std::vector<char> chunk(kChunk, 'x');
  asio::io_context context(1);
  Local::acceptor acceptor(context, Local::endpoint(path));
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    Socket socket(context);
    acceptor.accept(socket.next_layer());
    socket.binary(true);
    socket.auto_fragment(false);
    socket.write_buffer_bytes(kChunk + 64);
    ServeConnection(socket, chunk);
  }
}

int ServePipe() {
  const std::vector<char> chunk(kChunk, 'x');
  char line[32];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    for (uint64_t left = std::strtoull(line, nullptr, 10) * kChunk; left > 0;) {
      const ssize_t wrote = write(STDOUT_FILENO, chunk.data(), std::min(left, chunk.size()));
      if (wrote <= 0) return 1;
      left -= static_cast<uint64_t>(wrote);
    }
  }
  return 0;
}

}  // namespace sandbroker::bench
