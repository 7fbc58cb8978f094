#include "lib/link/read_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sandbroker::link {
namespace {

// Below this a copy costs less than holding on to the chunk.
constexpr size_t kCopyBelow = 16 * 1024;

}  // namespace

std::shared_ptr<char> ChunkPool::Take() {
  std::unique_ptr<char[]> chunk;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      chunk = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (!chunk) chunk.reset(new char[chunk_size_]);
  return std::shared_ptr<char>(chunk.release(), [pool = shared_from_this()](char* data) {
    pool->GiveBack(std::unique_ptr<char[]>(data));
  });
}

void ChunkPool::GiveBack(std::unique_ptr<char[]> chunk) {
  const std::lock_guard lock(mutex_);
  if (spare_.size() < max_spare_) spare_.push_back(std::move(chunk));
}

ReadBuffer::Room ReadBuffer::Prepare(size_t limit) {
  if (!data_) {
    data_ = pool_->Take();
    capacity_ = pool_->chunk_size();
  }
  if (size_ == capacity_) {
    const size_t wanted = std::min(capacity_ * 2, limit);
    if (wanted <= size_) return {nullptr, 0};
    std::shared_ptr<char> larger(new char[wanted], std::default_delete<char[]>());
    std::memcpy(larger.get(), data_.get(), size_);
    data_ = std::move(larger);
    capacity_ = wanted;
  }
  return {data_.get() + size_, capacity_ - size_};
}

SharedBytes ReadBuffer::TakeFrom(size_t from) {
  const size_t length = size_ - from;
  size_ = 0;
  if (length < kCopyBelow) return SharedBytes::Copy({data_.get() + from, length});
  const std::shared_ptr<char> taken = std::move(data_);
  data_ = nullptr;
  return SharedBytes(std::shared_ptr<const char>(taken, taken.get() + from), length);
}

}  // namespace sandbroker::link
