// A read-only stretch of shared memory. Output travels as these from the socket it was read from
// to the socket it is written to, without a copy. The memory lives as long as any slice of it.
// Copies may be used from different threads; one object may not.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sandbroker {

class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(std::shared_ptr<const char> owner, size_t size)
      : owner_(std::move(owner)), size_(size) {}

  static SharedBytes Copy(std::string_view data) { return Own(std::string(data)); }
  static SharedBytes Own(std::string data) {
    auto owner = std::make_shared<const std::string>(std::move(data));
    return SharedBytes(std::shared_ptr<const char>(owner, owner->data()), owner->size());
  }

  const char* data() const { return owner_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {data(), size_}; }

  // [from, from + length) of this stretch, sharing its memory.
  SharedBytes Slice(size_t from, size_t length) const {
    return SharedBytes(std::shared_ptr<const char>(owner_, owner_.get() + from), length);
  }

 private:
  std::shared_ptr<const char> owner_;
  size_t size_ = 0;
};

}  // namespace sandbroker
