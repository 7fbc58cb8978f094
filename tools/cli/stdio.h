// The command line's own three descriptors: present even when the caller had closed them, written
// whole, and without dying of a closed pipe. Any thread, after PrepareStdio.
#pragma once

#include <string>
#include <string_view>

namespace sandbroker::cli {

enum class WriteResult { kDone, kClosed, kFailed };

// Puts /dev/null in place of descriptors 0 to 2 that the caller had closed, and ignores SIGPIPE
// and, for a background job's terminal, SIGTTIN. Call before anything else: it may execute the
// program anew, since by the time of main a library can have taken such a number for itself.
void PrepareStdio(char** argv);

// Everything, whatever the descriptor's mode. kClosed: nobody reads any more. On kFailed errno says
// why.
WriteResult WriteAll(int fd, std::string_view data);

// "No such file or directory" and so on.
std::string ErrorText(int error_number);

// "sandbroker: MESSAGE" on stderr.
void Complain(std::string_view message);

}  // namespace sandbroker::cli
