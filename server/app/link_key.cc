#include "server/app/link_key.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/base/strings.h"
#include "server/app/files.h"
#include "server/app/state_dir.h"

namespace sandbroker::app {
namespace {

constexpr size_t kMaxPem = 4096;

absl::Status Refused(const std::string& file, std::string_view why) {
  return absl::FailedPreconditionError(StrCat(file, ": ", why));
}

// Never over one that is there: somebody may have been told its public part.
absl::Status Make(const std::string& file) {
  const std::string fresh = StrCat(file, ".", NewId());
  const std::string pem = SigningKey::Make(KeyKind::kEd25519).ToPem();
  SANDBROKER_RETURN_IF_ERROR(WriteFileAtomically(fresh, pem, 0600));
  const int linked = link(fresh.c_str(), file.c_str());
  const int error = errno;
  unlink(fresh.c_str());
  if (linked == 0 || error == EEXIST) return absl::OkStatus();
  return Refused(file, std::strerror(error));
}

}  // namespace

absl::StatusOr<SigningKey> ReadOrMakeLinkKey(const std::string& state_dir) {
  SANDBROKER_RETURN_IF_ERROR(MakeStateDir(state_dir));
  const std::string file = state_dir + "/link_key.pem";
  absl::StatusOr<std::string> pem = ReadSmallFile(file, kMaxPem);
  if (absl::IsNotFound(pem.status())) {
    SANDBROKER_RETURN_IF_ERROR(Make(file));
    pem = ReadSmallFile(file, kMaxPem);
  }
  if (!pem.ok()) return pem.status();
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return Refused(file, std::strerror(errno));
  if ((info.st_mode & 077) != 0) return Refused(file, "others may read it; chmod it to 0600");
  absl::StatusOr<SigningKey> key = SigningKey::FromPem(*pem);
  if (!key.ok()) return Refused(file, MessageOf(key.status()));
  return key;
}

}  // namespace sandbroker::app
