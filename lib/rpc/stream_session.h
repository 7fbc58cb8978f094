// StreamCore for one type of request: messages are parsed on gRPC's thread and handed to the
// handler on the loop.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>

#include <memory>
#include <string_view>
#include <utility>

#include "lib/base/status.h"
#include "lib/rpc/stream_core.h"

namespace sandbroker::rpc {

template <class Request>
class StreamHandler : public StreamEvents {
 public:
  // One message. The next comes only after StreamCore::ReadNext.
  virtual void OnRequest(Request request) = 0;
};

template <class Request>
class StreamSession final : public StreamCore {
 public:
  // On gRPC's thread. `make_handler` is called there too and may only store what it is given:
  // (StreamCore&) -> unique_ptr<StreamHandler<Request>>, for which the stream stays valid as long
  // as the handler lives.
  template <class MakeHandler>
  static StreamSession* Start(const Runtime& runtime, std::string_view method,
                              const grpc::CallbackServerContext& context, uint64_t report_credit,
                              std::unique_ptr<Outbox> outbox, const MakeHandler& make_handler) {
    std::shared_ptr<StreamSession> session(
        new StreamSession(runtime, method, context, report_credit));
    session->handler_ = make_handler(*session);
    session->Begin(std::move(outbox));
    return session.get();
  }

 private:
  using StreamCore::StreamCore;

  void OnMessage(grpc::ByteBuffer* message) override {
    auto request = std::make_shared<Request>();
    const bool parsed =
        grpc::SerializationTraits<Request>::Deserialize(message, request.get()).ok();
    OnLoop([this, request, parsed] {
      ReadReturned();
      if (!handler_ || gone() || closing()) return;
      if (!parsed) return FinishAfterFlush(InvalidField("message", "not a message of this method"));
      handler_->OnRequest(std::move(*request));
    });
  }

  StreamEvents& events() override { return *handler_; }
  void DropHandler() override { handler_.reset(); }

  std::unique_ptr<StreamHandler<Request>> handler_;  // loop thread once begun
};

}  // namespace sandbroker::rpc
