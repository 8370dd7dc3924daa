// The devices that this process uses, each with one session, and each thread's current context.
#pragma once

#include <memory>

#include "runtime/error.h"
#include "runtime/handles.h"

namespace aclnn::runtime {

// Makes a device the thread's, with its primary context; opens its session at the first use.
Error set_device(int device);

// Ends one use of a device, or all; with the last one its session ends, with all that it holds.
Error reset_device(int device, bool all);

// The thread's current context. Fails with 107002 where it has none.
Error current(std::shared_ptr<Context>* context);

// Makes a context the thread's; null takes its context away.
void set_current(std::shared_ptr<Context> context);

// The primary context of a session's device; null where it has ended.
std::shared_ptr<Context> primary_context(const Session& session);

// The device that threads without a context use, as aclInit's configuration names it; below 0 for
// none.
void set_default_device(int device);

// Ends all sessions, and forgets what is known of the server.
void end_all_sessions();

// Whether this process was forked from one that had connected. gRPC's threads do not exist here,
// and every call would hang.
bool forked();
int fail_forked();

}  // namespace aclnn::runtime
