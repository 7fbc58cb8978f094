// One open watch: a connection of its own, a request, and the events that come on it. Every wait
// ends with the CallEnd it was given. Loop thread only.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>

#include "lib/kube/transport.h"
#include "lib/kube/watch_lines.h"

namespace sandbroker::kube {

class WatchStream {
 public:
  // Both outlive it.
  WatchStream(Transport& transport, CallEnd& end);

  // ok(): events follow; the result's object is empty.
  Task<Result> Open(std::string target);
  // The next event, however odd; an empty object for what is none. No value: the watch is over.
  // Each sign of life gives the call another `silence`.
  Task<std::optional<boost::json::object>> Next(Duration silence);

  // After Next had no value: the server ended it as it should; else error() says what happened.
  bool clean() const { return clean_; }
  const std::string& error() const { return exchanged_.error; }

 private:
  Task<bool> ReadOn(Duration silence);

  Transport& transport_;
  CallEnd& end_;
  std::shared_ptr<Connection> connection_;
  HttpAnswer answer_;
  Exchanged exchanged_;
  LineSplitter lines_;
  bool clean_ = false;
};

}  // namespace sandbroker::kube
