#include "lib/wire/frame.h"

#include <cstring>

#include "lib/base/strings.h"

namespace sandbroker::wire {
namespace {

template <class Int>
void StoreLe(char* to, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i) to[i] = static_cast<char>(value >> (8 * i));
}

template <class Int>
Int LoadLe(const char* from) {
  Int value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) {
    value |= static_cast<Int>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return value;
}

size_t PayloadLimit(Kind kind) {
  switch (kind) {
    case Kind::kOpen:
      return kMaxOpen;
    case Kind::kData:
      return kDataAddressSize + kMaxData;
    case Kind::kCredit:
    case Kind::kAck:
      return sizeof(uint64_t);
    case Kind::kEvent:
    case Kind::kEnd:
    case Kind::kReset:
      return kMaxControl;
  }
  return 0;
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kOpen:
      return "OPEN";
    case Kind::kData:
      return "DATA";
    case Kind::kEvent:
      return "EVENT";
    case Kind::kCredit:
      return "CREDIT";
    case Kind::kAck:
      return "ACK";
    case Kind::kEnd:
      return "END";
    case Kind::kReset:
      return "RESET";
  }
  return "unknown";
}

Header EncodeHeader(uint32_t stream, Kind kind) {
  Header header{};
  StoreLe(header.data(), stream);
  header[4] = static_cast<char>(kind);
  return header;
}

DataHeader EncodeDataHeader(uint32_t stream, uint64_t offset, uint8_t fd) {
  DataHeader header{};
  const Header front = EncodeHeader(stream, Kind::kData);
  std::memcpy(header.data(), front.data(), front.size());
  StoreLe(header.data() + kHeaderSize, offset);
  header[kHeaderSize + sizeof(uint64_t)] = static_cast<char>(fd);
  return header;
}

std::string EncodeFrame(uint32_t stream, Kind kind, std::string_view payload) {
  const Header header = EncodeHeader(stream, kind);
  std::string message;
  message.reserve(header.size() + payload.size());
  message.append(header.data(), header.size());
  message.append(payload);
  return message;
}

std::string EncodeNumber(uint32_t stream, Kind kind, uint64_t number) {
  char raw[sizeof(number)];
  StoreLe(raw, number);
  return EncodeFrame(stream, kind, {raw, sizeof(raw)});
}

absl::StatusOr<Frame> ParseFrame(std::string_view message) {
  if (message.size() < kHeaderSize) {
    return absl::InvalidArgumentError(
        StrCat("frame of ", message.size(), " bytes; a header has ", kHeaderSize));
  }
  if (message[5] != 0 || message[6] != 0 || message[7] != 0) {
    return absl::InvalidArgumentError("frame header: reserved bytes are not zero");
  }
  const auto kind = static_cast<uint8_t>(message[4]);
  if (kind < static_cast<uint8_t>(Kind::kOpen) || kind > static_cast<uint8_t>(Kind::kReset)) {
    return absl::InvalidArgumentError(StrCat("frame of unknown kind ", kind));
  }
  Frame frame;
  frame.stream = LoadLe<uint32_t>(message.data());
  frame.kind = static_cast<Kind>(kind);
  frame.payload = message.substr(kHeaderSize);
  if (frame.payload.size() > PayloadLimit(frame.kind)) {
    return absl::InvalidArgumentError(StrCat(KindName(frame.kind), " of ", frame.payload.size(),
                                             " bytes; limit ", PayloadLimit(frame.kind)));
  }
  return frame;
}

absl::StatusOr<Data> ParseData(std::string_view payload) {
  if (payload.size() < kDataAddressSize) {
    return absl::InvalidArgumentError(
        StrCat("DATA of ", payload.size(), " bytes; its address has ", kDataAddressSize));
  }
  Data data;
  data.offset = LoadLe<uint64_t>(payload.data());
  data.fd = static_cast<uint8_t>(payload[8]);
  data.bytes = payload.substr(kDataAddressSize);
  if (data.offset + data.bytes.size() < data.offset) {
    return absl::InvalidArgumentError("DATA: offset overflows");
  }
  return data;
}

absl::StatusOr<uint64_t> ParseNumber(std::string_view payload) {
  if (payload.size() != sizeof(uint64_t)) {
    return absl::InvalidArgumentError(StrCat("number of ", payload.size(), " bytes instead of 8"));
  }
  return LoadLe<uint64_t>(payload.data());
}

}  // namespace sandbroker::wire
