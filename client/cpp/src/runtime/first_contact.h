// Why a server hangs up on the first call.
#pragma once

#include "runtime/environment.h"
#include "runtime/error.h"

namespace aclnn::runtime {

// What the first call failed with, and why, where gRPC tells only that the connection broke: the
// server speaks TLS and the program does not, or it asks for another certificate of the program.
Error explained(Error error, const Environment& environment);

}  // namespace aclnn::runtime
