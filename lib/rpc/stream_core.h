// One stream of messages to a caller, and perhaps from it: a gRPC reactor on one side (the derived
// class, stream_session.h), a handler on the loop on the other. One read and one write are under
// way at most. Reads happen on demand. Writes go from one to the next on gRPC's own thread, without
// a visit to the loop, so the outbox and the flags about writing stand under a lock that is never
// held across a call into gRPC; all else is the loop's.
//
//   event                   effect
//   ReadNext                read, unless one is under way or the stream is over
//   WriteDone(ok)           next message, or the end; credit is reported in lumps
//   WriteDone(!ok)          as Cancelled
//   Cancelled               outbox dropped, OnGone, the end as soon as no write is under way
//   FinishAfterFlush        the last message and the status leave together
//   Done                    the handler dies on the loop, then the stream
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lib/rpc/call_context.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/runtime.h"

namespace sandbroker::rpc {

// The part of a handler that does not depend on the request's type. Loop thread only, destructor
// included.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // The caller sends no more. It may still read.
  virtual void OnReadsDone() = 0;
  // gRPC has taken messages worth this much credit since the last call.
  virtual void OnSent(uint64_t credit) = 0;
  // The caller is gone: nothing that is written reaches it. Not after FinishAfterFlush.
  virtual void OnGone() = 0;
};

class StreamCore : public std::enable_shared_from_this<StreamCore> {
 public:
  virtual ~StreamCore() = default;
  StreamCore(const StreamCore&) = delete;
  StreamCore& operator=(const StreamCore&) = delete;

  // Loop thread, all four.
  void ReadNext();
  // Changes the outbox under the lock, then sends if nothing is being sent. After the end or the
  // loss of the caller the outbox is gone and `change` is not called.
  void Send(const std::function<void()>& change);
  // No further message is sent after those in the outbox. `last` may still add one, which then
  // leaves together with the status. Only the first call counts.
  void FinishAfterFlush(const absl::Status& status, const std::function<void()>& last = nullptr);
  // FinishAfterFlush was called.
  bool closing() const { return closing_; }

  const CallContext& context() const { return context_; }

 protected:
  // `report_credit`: OnSent comes once at least this much was taken.
  StreamCore(const Runtime& runtime, std::string_view method,
             const grpc::CallbackServerContext& context, uint64_t report_credit);

  // On gRPC's thread, one of them, once, before the reactor is handed to gRPC. The first also
  // begins to read; after the other nothing is read.
  void BeginReading(std::unique_ptr<Outbox> outbox);
  void BeginSending(std::unique_ptr<Outbox> outbox);
  // What the reactor hears, to be passed on. On gRPC's thread.
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Cancelled();
  void Done();
  // On gRPC's thread. `message` is this call's to consume.
  virtual void OnMessage(grpc::ByteBuffer* message) = 0;
  // Loop thread.
  virtual StreamEvents& events() = 0;
  virtual void DropHandler() = 0;
  // Runs `fn` on the loop; what it throws ends the stream with INTERNAL.
  void OnLoop(std::function<void()> fn);
  // Loop thread: the message of the last read has arrived there.
  void ReadReturned() { reading_ = false; }
  bool gone() const { return gone_; }

 private:
  // The reactor's operations; each is done when it says so.
  virtual void Read(grpc::ByteBuffer* message) = 0;
  virtual void Write(const grpc::ByteBuffer* message) = 0;
  virtual void WriteLast(const grpc::ByteBuffer* message, grpc::Status status) = 0;
  virtual void End(grpc::Status status) = 0;

  enum class Step { kNone, kWrite, kWriteAndFinish, kFinish };

  // Nothing more reaches the caller. Advance is still to be called.
  void Abort();
  void ReportSent();
  // Decides under the lock, acts outside of it.
  void Advance();
  Step Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Runtime runtime_;
  const uint64_t report_credit_;
  CallContext context_;
  CancelSource cancel_;
  std::shared_ptr<StreamCore> self_;

  // Loop thread only.
  bool reading_ = true;  // BeginReading starts the first
  bool reads_done_ = false;
  bool closing_ = false;
  bool gone_ = false;

  // Of the one who reads or writes.
  grpc::ByteBuffer incoming_;
  Outgoing outgoing_;

  std::mutex mutex_;
  std::unique_ptr<Outbox> outbox_ ABSL_GUARDED_BY(mutex_);
  int starting_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // status_ is set
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reporting_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sandbroker::rpc
