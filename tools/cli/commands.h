// What each subcommand does; returns its exit code. One file each.
#pragma once

#include "tools/cli/command_line.h"

namespace sandbroker::cli {

int Execute(const AcquireCommand& command);
int Execute(const RunCommand& command);
int Execute(const ExecCommand& command);
int Execute(const ListCommand& command);
int Execute(const ReleaseCommand& command);
int Execute(const CapacityCommand& command);
int Execute(const InfoCommand& command);
int Execute(const DoctorCommand& command);

}  // namespace sandbroker::cli
