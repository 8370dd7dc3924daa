/* Handles: every object that the caller holds is known here, for ever, so that a stale one is recognised. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const KIND_NAMES[KINDS] = {
    "aclTensor",     "aclScalar",     "aclIntArray",   "aclFloatArray", "aclBoolArray",
    "aclTensorList", "aclScalarList", "aclOpExecutor", "aclrtStream",   "aclrtEvent",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const FakeHandle **table; /* open addressing; never more than half full */
static size_t capacity, count;
static int64_t live[MAX_DEVICES + 1][KINDS];

static size_t slotOf(const void *handle)
{
    size_t slot = ((uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15u;
    for (slot &= capacity - 1; table[slot] != NULL && table[slot] != handle; slot = (slot + 1) & (capacity - 1)) {
    }
    return slot;
}

static void grow(void)
{
    const FakeHandle **before = table;
    size_t size = capacity;
    capacity = capacity == 0 ? 4096 : capacity * 2;
    table = calloc(capacity, sizeof *table);
    for (size_t i = 0; i < size; i++) {
        if (before[i] != NULL) {
            table[slotOf(before[i])] = before[i];
        }
    }
    free(before);
}

void *fakeNew(FakeKind kind, size_t size)
{
    FakeHandle *handle = calloc(1, size);
    handle->kind = kind;
    handle->device = fakeDevice();
    handle->live = true;
    pthread_mutex_lock(&lock);
    if (count * 2 >= capacity) {
        grow();
    }
    table[slotOf(handle)] = handle;
    count++;
    live[handle->device + 1][kind]++;
    pthread_mutex_unlock(&lock);
    return handle;
}

static FakeHandle *checked(const char *function, const void *given, FakeKind kind)
{
    FakeHandle *handle = capacity == 0 ? NULL : (FakeHandle *)table[slotOf(given)];
    if (handle == NULL) {
        fakeMisuse(function, "%p is no handle, where %s is expected", given, KIND_NAMES[kind]);
    }
    if (handle->kind != kind) {
        fakeMisuse(function, "wrong handle type: %s, where %s is expected", KIND_NAMES[handle->kind],
                   KIND_NAMES[kind]);
    }
    if (!handle->live) {
        fakeMisuse(function, "%s was destroyed before, by %s", KIND_NAMES[kind], handle->ended_by);
    }
    return handle;
}

void *fakeUse(const char *function, const void *given, FakeKind kind)
{
    pthread_mutex_lock(&lock);
    FakeHandle *handle = checked(function, given, kind);
    pthread_mutex_unlock(&lock);
    return handle;
}

void *fakeEnd(const char *function, const void *given, FakeKind kind)
{
    pthread_mutex_lock(&lock);
    FakeHandle *handle = checked(function, given, kind);
    handle->live = false;
    handle->ended_by = function;
    live[handle->device + 1][kind]--;
    pthread_mutex_unlock(&lock);
    return handle;
}

int64_t fakeLiveOn(int32_t device, FakeKind kind)
{
    pthread_mutex_lock(&lock);
    int64_t result = live[device + 1][kind];
    pthread_mutex_unlock(&lock);
    return result;
}

static int64_t liveOfKinds(FakeKind first, FakeKind last)
{
    int64_t sum = 0;
    for (int32_t device = -1; device < MAX_DEVICES; device++) {
        for (FakeKind kind = first; kind <= last; kind++) {
            sum += fakeLiveOn(device, kind);
        }
    }
    return sum;
}

static const struct {
    const char *name;
    FakeKind first, last;
} GROUPS[] = {
    {"tensor", KIND_TENSOR, KIND_TENSOR},
    {"scalar", KIND_SCALAR, KIND_SCALAR},
    {"array", KIND_INT_ARRAY, KIND_BOOL_ARRAY},
    {"list", KIND_TENSOR_LIST, KIND_SCALAR_LIST},
    {"executor", KIND_EXECUTOR, KIND_EXECUTOR},
    {"stream", KIND_STREAM, KIND_STREAM},
    {"event", KIND_EVENT, KIND_EVENT},
};

int64_t fakeLive(const char *kind)
{
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        if (strcmp(GROUPS[i].name, kind) == 0) {
            return liveOfKinds(GROUPS[i].first, GROUPS[i].last);
        }
    }
    if (strcmp(kind, "memory") == 0) {
        return fakeAllocations(-1);
    }
    if (strcmp(kind, "host") == 0) {
        return fakeAllocations(-2);
    }
    if (strcmp(kind, "device") == 0) {
        return fakeDeviceUses();
    }
    if (strcmp(kind, "all") == 0) {
        return liveOfKinds(0, KINDS - 1) + fakeAllocations(-1) + fakeAllocations(-2) + fakeDeviceUses();
    }
    fakeMisuse(__func__, "%s is no kind of object", kind);
}
