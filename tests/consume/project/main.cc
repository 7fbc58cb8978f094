// Uses the installed headers alone; there is no server to be found where it looks.
#include <sandbroker/client/client.h>

#include <iostream>

int main(int, char** argv) {
  const absl::StatusOr<sandbroker::client::Client> client =
      sandbroker::client::Client::Connect(argv[1]);
  if (client.ok()) {
    const absl::StatusOr<sandbroker::client::SandboxLease> lease = client->Acquire();
    return lease.ok() ? 2 : 1;
  }
  std::cout << client.status().message() << "\n";
  return sandbroker::client::ErrorOf(client.status()).reason.empty() ? 0 : 1;
}
