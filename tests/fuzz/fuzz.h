// What a fuzz harness defines. Under clang libFuzzer calls LLVMFuzzerTestOneInput; under GCC
// driver_main.cc does, with a fixed sequence of mutations of the seeds. A harness reports by
// ending the process (SANDBROKER_CHECK), so that a sanitizer and a plain build find the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sandbroker::fuzz {

// Inputs that reach deep; mutations start from them.
std::vector<std::string> Seeds();

// Takes an input apart, front to back; zeros and empty strings once it is used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::string_view Bytes(size_t count) {
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace sandbroker::fuzz
