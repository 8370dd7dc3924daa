/* Inside of the double: handles, rules, streams. Every breach of a rule ends the process with a message. */
#ifndef FAKE_FAKE_H
#define FAKE_FAKE_H

#include "acl/acl.h"
#include "control.h"

/* --- rules -------------------------------------------------------------------------------------- */

/* The caller broke a rule of the interface. */
_Noreturn FAKE_API void fakeMisuse(const char *function, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum { NEEDS_NOTHING = 0, NEEDS_INIT = 1, NEEDS_DEVICE = 2 };

/* Counts a call and checks what it needs; returns the code that it must fail with, or 0. */
FAKE_API int32_t fakeCall(const char *function, int needs);
#define FAKE_CALL(needs)                          \
    do {                                          \
        int32_t failed = fakeCall(__func__, needs); \
        if (failed != 0) {                        \
            return failed;                        \
        }                                         \
    } while (0)

/* Keeps a text for aclGetRecentErrMsg and returns the code. */
FAKE_API int32_t fakeError(int32_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- handles ------------------------------------------------------------------------------------ */

typedef enum {
    KIND_TENSOR,
    KIND_SCALAR,
    KIND_INT_ARRAY,
    KIND_FLOAT_ARRAY,
    KIND_BOOL_ARRAY,
    KIND_TENSOR_LIST,
    KIND_SCALAR_LIST,
    KIND_EXECUTOR,
    KIND_STREAM,
    KIND_EVENT,
    KINDS,
} FakeKind;

/* Every object that the caller holds begins with this. */
typedef struct {
    FakeKind kind;
    int32_t device; /* of the thread that made it; -1 where it had none */
    bool live;
    const char *ended_by;
} FakeHandle;

/* Makes a handle of `size` zeroed bytes. Its memory is never used for another, so a stale one is recognised. */
FAKE_API void *fakeNew(FakeKind kind, size_t size);
/* The handle, if it is live and of that kind. */
FAKE_API void *fakeUse(const char *function, const void *handle, FakeKind kind);
/* The same, and its end. */
FAKE_API void *fakeEnd(const char *function, const void *handle, FakeKind kind);
FAKE_API int64_t fakeLiveOn(int32_t device, FakeKind kind);

/* --- devices ------------------------------------------------------------------------------------ */

enum { MAX_DEVICES = 8 };

/* Device of the calling thread; -1 where it has none. */
FAKE_API int32_t fakeDevice(void);
FAKE_API const char *fakeSoc(void);
int64_t fakeDeviceUses(void);
bool fakeInitialised(void);

/* --- memory ------------------------------------------------------------------------------------- */

/* Ends the process unless the bytes lie in one live allocation of the device. */
FAKE_API void fakeCheckMemory(const char *function, const char *what, const void *data, size_t size, int32_t device);
int64_t fakeAllocations(int32_t device); /* -1: of all; -2: pinned */

/* --- streams ------------------------------------------------------------------------------------ */

enum { MAX_RANGES = 64 };

/* Bytes that queued work uses. */
typedef struct {
    const char *data;
    size_t size;
    bool written;
} FakeRange;

/* Work on a stream: `run` returns the code that it failed with, then `drop` frees `data`. */
typedef struct FakeTask {
    struct FakeTask *next;
    const char *function;
    int32_t (*run)(void *data);
    void (*drop)(void *data);
    void *data;
    FakeRange ranges[MAX_RANGES];
    int range_count;
    uint64_t number;
} FakeTask;

FAKE_API FakeTask *fakeTask(const char *function, int32_t (*run)(void *), void (*drop)(void *), void *data);
FAKE_API void fakeTaskUses(FakeTask *task, const void *data, size_t size, bool written);
/* Queues the task; its work is done later, on the stream's own thread. */
FAKE_API void fakeQueue(FakeTask *task, aclrtStream stream);
/* Ends the process when queued work that nobody has waited for uses the bytes. */
void fakeCheckUnused(const char *function, const char *why, const void *data, size_t size, bool only_written);
int fakeTakeTaskFailure(int32_t *code);

#endif
