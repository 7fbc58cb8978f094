#include "server/services/exec_outbox.h"

#include <utility>

#include "lib/rpc/buffers.h"
#include "server/services/limits.h"

namespace sandbroker::services {
namespace {

// Below this a copy costs less than a reference of its own.
constexpr size_t kSmall = 2048;

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

constexpr char kTagVarint = 0;
constexpr char kTagBytes = 2;
constexpr char Tag(int field, char kind) { return static_cast<char>(field << 3 | kind); }

// Everything of ExecResponse{output{offset, stream, data}} but the data itself, which comes last.
std::string OutputHeader(uint64_t offset, int fd, size_t size) {
  std::string inner;
  if (offset != 0) {
    inner.push_back(Tag(v1::ExecOutput::kOffsetFieldNumber, kTagVarint));
    AppendVarint(offset, &inner);
  }
  inner.push_back(Tag(v1::ExecOutput::kStreamFieldNumber, kTagVarint));
  AppendVarint(fd == 1 ? v1::OUTPUT_STREAM_STDOUT : v1::OUTPUT_STREAM_STDERR, &inner);
  inner.push_back(Tag(v1::ExecOutput::kDataFieldNumber, kTagBytes));
  AppendVarint(size, &inner);
  std::string header(1, Tag(v1::ExecResponse::kOutputFieldNumber, kTagBytes));
  AppendVarint(inner.size() + size, &header);
  return header + inner;
}

std::string_view View(const std::variant<std::string, SharedBytes>& part) {
  if (const auto* copied = std::get_if<std::string>(&part)) return *copied;
  return std::get<SharedBytes>(part).view();
}

}  // namespace

void ExecOutbox::Append(Output* output, SharedBytes data) {
  output->size += data.size();
  if (data.size() > kSmall) {
    output->parts.emplace_back(std::move(data));
    return;
  }
  auto* tail = output->parts.empty() ? nullptr : std::get_if<std::string>(&output->parts.back());
  if (tail != nullptr) {
    tail->append(data.view());
  } else {
    output->parts.emplace_back(std::string(data.view()));
  }
}

void ExecOutbox::PushOutput(uint64_t offset, int fd, SharedBytes data) {
  if (!items_.empty()) {
    auto* tail = std::get_if<Output>(&items_.back());
    if (tail != nullptr && tail->fd == fd && tail->offset + tail->size == offset &&
        tail->size + data.size() <= kMaxOutputChunkBytes) {
      return Append(tail, std::move(data));
    }
  }
  Output output{offset, fd, 0, {}};
  Append(&output, std::move(data));
  items_.emplace_back(std::move(output));
}

void ExecOutbox::PushEvent(const v1::ExecResponse& event) {
  items_.emplace_back(rpc::Serialize(event));
}

void ExecOutbox::PushInputWindow(uint64_t limit) {
  auto* tail = items_.empty() ? nullptr : std::get_if<InputWindow>(&items_.back());
  if (tail != nullptr) {
    tail->limit = limit;
  } else {
    items_.emplace_back(InputWindow{limit});
  }
}

rpc::Outgoing ExecOutbox::Encode(Output output) {
  std::string header = OutputHeader(output.offset, output.fd, output.size);
  std::vector<grpc::Slice> slices;
  if (output.size <= kSmall) {
    for (const Part& part : output.parts) header += View(part);
    slices.push_back(rpc::CopySlice(header));
  } else {
    slices.reserve(output.parts.size() + 1);
    slices.push_back(rpc::CopySlice(header));
    for (Part& part : output.parts) {
      if (auto* copied = std::get_if<std::string>(&part)) {
        slices.push_back(rpc::ShareSlice(SharedBytes::Own(std::move(*copied))));
      } else {
        slices.push_back(rpc::ShareSlice(std::move(std::get<SharedBytes>(part))));
      }
    }
  }
  return {grpc::ByteBuffer(slices.data(), slices.size()), output.size};
}

rpc::Outgoing ExecOutbox::Pop() {
  Item item = std::move(items_.front());
  items_.pop_front();
  if (auto* output = std::get_if<Output>(&item)) return Encode(std::move(*output));
  if (const auto* window = std::get_if<InputWindow>(&item)) {
    v1::ExecResponse event;
    event.mutable_input_window()->set_limit(window->limit);
    return {rpc::Serialize(event), 0};
  }
  return {std::move(std::get<grpc::ByteBuffer>(item)), 0};
}

}  // namespace sandbroker::services
