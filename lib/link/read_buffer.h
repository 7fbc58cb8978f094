// Where one WebSocket message is read into. Large ones are handed on as they are, without a copy;
// small ones are copied out, so that one byte of output never pins a whole chunk. Used chunks come
// back to a small free list from whatever thread drops them last. The object itself is of the
// loop thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "lib/base/bytes.h"

namespace sandbroker::link {

// Shared by all links of the process; any thread.
class ChunkPool : public std::enable_shared_from_this<ChunkPool> {
 public:
  ChunkPool(size_t chunk_size, size_t max_spare) : chunk_size_(chunk_size), max_spare_(max_spare) {}
  std::shared_ptr<char> Take();
  size_t chunk_size() const { return chunk_size_; }

 private:
  void GiveBack(std::unique_ptr<char[]> chunk);

  const size_t chunk_size_;
  const size_t max_spare_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> spare_;
};

class ReadBuffer {
 public:
  explicit ReadBuffer(std::shared_ptr<ChunkPool> pool) : pool_(std::move(pool)) {}

  // Room for the next part of the message; grows up to `limit` bytes in all, nullptr beyond it.
  struct Room {
    char* data;
    size_t size;
  };
  Room Prepare(size_t limit);
  void Commit(size_t bytes) { size_ += bytes; }
  std::string_view message() const { return {data_.get(), size_}; }
  // [from, end) of the message, to outlive it. Starts the next message.
  SharedBytes TakeFrom(size_t from);
  void Clear() { size_ = 0; }

 private:
  std::shared_ptr<ChunkPool> pool_;
  std::shared_ptr<char> data_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

}  // namespace sandbroker::link
