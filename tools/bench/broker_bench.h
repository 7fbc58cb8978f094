// The measures: the same work through a sandbrokerd that the bench starts for itself. Every call is
// one round and adds to its samples. One thread.
#pragma once

#include <memory>
#include <string>

#include "sandbroker/v1/broker.grpc.pb.h"
#include "tools/bench/child.h"
#include "tools/bench/samples.h"

namespace sandbroker::bench {

class BrokerBench {
 public:
  // Starts `program`; its files go into `dir`.
  BrokerBench(const std::string& program, const std::string& dir);
  ~BrokerBench();

  // Microseconds each.
  void RunTrue(int count);
  void WarmAcquire(int count);
  void ColdAcquire(int count);
  // `count` Runs of true at once in one sandbox: each one's time, and until the last was back.
  void RunAtOnce(int count);
  // One byte through cat and back.
  void InputEcho(int count);
  // MB/s of a program that prints `chunks` of 64 KiB.
  void OutputStream(uint64_t chunks);

  Samples run, warm_acquire, cold_acquire, run_each_of_many, run_all_of_many, input_echo;
  Samples output_stream;

 private:
  std::string Acquire(const std::string& pool, v1::Fallback fallback);
  void Release(const std::string& sandbox_id);
  void AwaitWarm(const std::string& pool);
  v1::RunRequest TrueRequest() const;

  std::unique_ptr<Child> server_;
  std::unique_ptr<v1::SandboxBroker::Stub> stub_;
  std::string sandbox_id_;
};

}  // namespace sandbroker::bench
