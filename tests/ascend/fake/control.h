/* What the tests may ask of the double, beside the vendor's interface. */
#ifndef FAKE_CONTROL_H
#define FAKE_CONTROL_H

#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* Objects that are live: "tensor", "scalar", "array", "list", "executor", "stream", "event", "memory"
   (allocations on devices), "host" (pinned allocations), "device" (uses of devices), or "all". */
FAKE_API int64_t fakeLive(const char *kind);
/* Calls of a function since the process began. */
FAKE_API int64_t fakeCalls(const char *name);
/* Lets the n-th call of a function from now on fail with a code; 0 for n takes that back. "task" is the
   work of a stream: it fails on the device, and the code comes out of the next synchronisation. */
FAKE_API void fakeFail(const char *name, int64_t n, int32_t code);
/* Whether a failure that was asked for has not happened yet. */
FAKE_API int fakeFailPending(const char *name);
/* Holds the work of all streams back, or lets it go on. */
FAKE_API void fakeHold(int hold);
/* Bytes of a device that are allocated. */
FAKE_API int64_t fakeUsedBytes(int32_t device);
/* Threads that ever had the device as theirs. */
FAKE_API int32_t fakeThreads(int32_t device);
/* Level of determinism that was set for a device. */
FAKE_API int64_t fakeDeterministic(int32_t device);

#endif
