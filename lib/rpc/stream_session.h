// StreamCore for one type of request and one of gRPC's two kinds of stream: messages are parsed on
// gRPC's thread and handed to the handler on the loop. StreamSession reads as many as the handler
// asks for; ServerStreamSession has the one request of its call.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/server_callback.h>

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

// What both kinds share.
template <class Request, class Reactor>
class ReactorStream : public Reactor, public StreamCore {
 protected:
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

  std::unique_ptr<StreamHandler<Request>> handler_;  // loop thread once begun

 private:
  StreamEvents& events() override { return *handler_; }
  void DropHandler() override { handler_.reset(); }

  void Write(const grpc::ByteBuffer* message) override { Reactor::StartWrite(message); }
  void WriteLast(const grpc::ByteBuffer* message, grpc::Status status) override {
    Reactor::StartWriteAndFinish(message, grpc::WriteOptions(), std::move(status));
  }
  void End(grpc::Status status) override { Reactor::Finish(std::move(status)); }

  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }
};

template <class Request>
class StreamSession final
    : public ReactorStream<Request, grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
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
    session->BeginReading(std::move(outbox));
    return session.get();
  }

 private:
  using Base = ReactorStream<Request, grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;
  using Base::Base;

  void Read(grpc::ByteBuffer* message) override { this->StartRead(message); }
  void OnReadDone(bool ok) override { this->ReadDone(ok); }
};

template <class Request>
class ServerStreamSession final
    : public ReactorStream<Request, grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  // As StreamSession::Start. `request` as gRPC gives it.
  template <class MakeHandler>
  static ServerStreamSession* Start(const Runtime& runtime, std::string_view method,
                                    const grpc::CallbackServerContext& context,
                                    uint64_t report_credit, const grpc::ByteBuffer& request,
                                    std::unique_ptr<Outbox> outbox,
                                    const MakeHandler& make_handler) {
    std::shared_ptr<ServerStreamSession> session(
        new ServerStreamSession(runtime, method, context, report_credit));
    session->handler_ = make_handler(*session);
    session->BeginSending(std::move(outbox));
    grpc::ByteBuffer message(request);
    session->OnMessage(&message);
    return session.get();
  }

 private:
  using Base = ReactorStream<Request, grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  using Base::Base;

  void Read(grpc::ByteBuffer*) override {}
};

}  // namespace sandbroker::rpc
