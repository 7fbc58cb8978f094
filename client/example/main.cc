// Acquire a sandbox, run a program in it with input and output as they come, give it back.
#include <cstdlib>
#include <iostream>

#include "sandbroker/client/client.h"

namespace sb = sandbroker::client;

int main(int argc, char** argv) {
  const absl::StatusOr<sb::Client> client =
      sb::Client::Connect(argc > 1 ? argv[1] : sb::kDefaultAddress);
  if (!client.ok()) {
    std::cerr << client.status().message() << "\n";
    return EXIT_FAILURE;
  }
  // Given back when `lease` goes out of scope.
  const absl::StatusOr<sb::SandboxLease> lease = client->Acquire({.ttl = std::chrono::minutes(1)});
  if (!lease.ok()) {
    std::cerr << sb::ErrorOf(lease.status()).reason << ": " << lease.status().message() << "\n";
    return EXIT_FAILURE;
  }
  sb::Execution cat = lease->Exec({.argv = {"cat"}}, {.input = sb::Stdin::kPipe});
  if (!cat.WriteStdin("hello from the sandbox\n").ok() || !cat.CloseStdin().ok()) {
    std::cerr << "the program took no input\n";
  }
  while (true) {
    const absl::StatusOr<std::optional<sb::Event>> event = cat.Next();
    if (!event.ok()) {
      std::cerr << event.status().message() << "\n";
      return EXIT_FAILURE;
    }
    if (!event->has_value()) return EXIT_SUCCESS;
    if ((*event)->has_output()) std::cout << (*event)->output().data() << std::flush;
    if ((*event)->has_ended())
      std::cout << "ended: " << (*event)->ended().ShortDebugString() << "\n";
  }
}
