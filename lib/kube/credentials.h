// What of the access may change while we run: the token and the CA, whose files the kubelet
// replaces. Loop thread only.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "lib/base/clock.h"
#include "lib/kube/access.h"

namespace sandbroker::kube {

class Credentials {
 public:
  // How often files are looked at. They are small and local (a mount in memory, in a pod), so they
  // are read here, on the loop.
  static constexpr Duration kRecheck = std::chrono::seconds(5);

  Credentials(const Clock& clock, Access access, FileReader read);

  // OK: certificates and keys are such.
  const absl::Status& status() const { return status_; }
  const Access& access() const { return access_; }

  // Empty without one.
  const std::string& Token();
  // Null for plain HTTP. Connections made with an older one stay good.
  std::shared_ptr<boost::asio::ssl::context> Tls();
  // The server did not take the token: looks at once.
  void Reread();

 private:
  void RereadIfDue();

  const Clock& clock_;
  Access access_;
  const FileReader read_;
  Time read_at_;
  std::shared_ptr<boost::asio::ssl::context> tls_;
  absl::Status status_;
};

}  // namespace sandbroker::kube
