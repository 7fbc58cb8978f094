// The far ends of the floors. Each runs in a process of its own, as the product's parts do, and
// does the least that can be called an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sandbroker::bench {

inline constexpr size_t kChunk = 64 * 1024;

// Prints "PORT\n" and serves until stdin ends. Run answers an empty end; Exec answers each message
// with one of a byte, or, when the first says argv = {"stream", N}, with N messages of kChunk.
int ServeGrpc();

// Listens on the unix path, prints "ready\n", and serves one connection after another until it is
// ended. A message is echoed; "stream N" is answered with N messages of kChunk.
int ServeWebSocket(const std::string& path);

// For every line "N" on stdin, N chunks on stdout.
int ServePipe();

}  // namespace sandbroker::bench
