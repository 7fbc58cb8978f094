// What an Exec stream still has to send. Output is kept as the memory it arrived in; pieces of one
// output that follow each other leave as one message of at most 256 KiB, so a caller that is slower
// than the program gets fewer and larger messages. Not synchronised: the stream's lock covers it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/rpc/outbox.h"
#include "sandbroker/v1/execution.pb.h"

namespace sandbroker::services {

class ExecOutbox final : public rpc::Outbox {
 public:
  // The window of the execution bounds the bytes; this bounds pieces that can't be joined.
  static constexpr size_t kMaxMessages = 64 * 1024;

  void PushOutput(uint64_t offset, int fd, SharedBytes data);
  void PushEvent(const v1::ExecResponse& event);
  // Takes the place of one that still waits at the end.
  void PushInputWindow(uint64_t limit);

  bool full() const { return items_.size() >= kMaxMessages; }
  size_t size() const { return items_.size(); }

  bool empty() const override { return items_.empty(); }
  bool last() const override { return items_.size() == 1; }
  // Credit is the number of output bytes.
  rpc::Outgoing Pop() override;

 private:
  // Small pieces are copied together, large ones are shared.
  using Part = std::variant<std::string, SharedBytes>;
  struct Output {
    uint64_t offset;
    int fd;
    size_t size;
    std::vector<Part> parts;
  };
  struct InputWindow {
    uint64_t limit;
  };
  using Item = std::variant<Output, InputWindow, grpc::ByteBuffer>;

  static void Append(Output* output, SharedBytes data);
  static rpc::Outgoing Encode(Output output);

  std::deque<Item> items_;
};

}  // namespace sandbroker::services
