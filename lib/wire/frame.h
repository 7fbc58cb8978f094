// The frame of a link: u32 stream, u8 kind, u24 zero, little endian, then the payload. One
// WebSocket message is one frame. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandbroker::wire {

inline constexpr size_t kHeaderSize = 8;
inline constexpr size_t kDataAddressSize = 9;  // u64 offset, u8 fd
inline constexpr std::string_view kSubprotocol = "sandbroker.link.1";
inline constexpr uint32_t kVersion = 1;

// Largest payloads. A WebSocket message above kMaxMessage is refused by the transport.
inline constexpr size_t kMaxData = 256 * 1024;       // bytes of a DATA, without its address
inline constexpr size_t kMaxOpen = 5 * 1024 * 1024;  // argv and env of one Start
inline constexpr size_t kMaxControl = 1024 * 1024;   // every other proto payload
inline constexpr size_t kMaxMessage = kHeaderSize + kMaxOpen;

enum class Kind : uint8_t {
  kOpen = 1,    // broker: proto Open
  kData = 2,    // both: u64 offset, u8 fd, bytes
  kEvent = 3,   // stream 0: proto Control; agent: proto Event; broker: proto Command
  kCredit = 4,  // both: u64 total bytes of DATA the peer may have sent since OPEN
  kAck = 5,     // broker: u64 offset below which output was taken
  kEnd = 6,     // agent: proto Ended
  kReset = 7,   // both: proto Reset
};
std::string_view KindName(Kind kind);

struct Frame {
  uint32_t stream = 0;
  Kind kind = Kind::kEvent;
  std::string_view payload;  // of the parsed message
};

struct Data {
  uint64_t offset = 0;
  uint8_t fd = 0;
  std::string_view bytes;
};

using Header = std::array<char, kHeaderSize>;
using DataHeader = std::array<char, kHeaderSize + kDataAddressSize>;

Header EncodeHeader(uint32_t stream, Kind kind);
// Header and address of a DATA frame; the bytes follow in a buffer of their own.
DataHeader EncodeDataHeader(uint32_t stream, uint64_t offset, uint8_t fd);
std::string EncodeFrame(uint32_t stream, Kind kind, std::string_view payload);
// CREDIT and ACK.
std::string EncodeNumber(uint32_t stream, Kind kind, uint64_t number);

// Every refusal is INVALID_ARGUMENT and says what was seen.
absl::StatusOr<Frame> ParseFrame(std::string_view message);
absl::StatusOr<Data> ParseData(std::string_view payload);
absl::StatusOr<uint64_t> ParseNumber(std::string_view payload);

}  // namespace sandbroker::wire
