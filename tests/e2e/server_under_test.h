// A sandbrokerd of its own for the C++ end-to-end tests, and a look at it and its agents through
// /proc. Everything here is seen from outside: plain stubs, processes, memory.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sandbroker/v1/broker.grpc.pb.h"

namespace sandbroker::e2e {

// The size of a test: the short one in CI, the long one with SANDBROKER_LONG=1.
uint64_t Count(uint64_t in_ci, uint64_t in_full);

class ServerUnderTest {
 public:
  ServerUnderTest();
  // SIGTERM, and a failed expectation unless it ends well.
  ~ServerUnderTest();

  // A stub on a connection of its own.
  std::unique_ptr<v1::SandboxBroker::Stub> Stub() const;
  // Handle of a fresh sandbox.
  std::string Acquire() const;

  pid_t pid() const { return pid_; }
  // The broker's descendants: pid to state letter.
  std::map<pid_t, char> Descendants() const;
  std::vector<pid_t> Agents() const;

 private:
  std::string folder_;
  std::string address_;
  pid_t pid_ = -1;
};

uint64_t RssKib(pid_t pid);
size_t OpenFds(pid_t pid);

}  // namespace sandbroker::e2e
