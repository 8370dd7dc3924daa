/* Copies and fills, at once and in streams. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { PINNED = -2 };

static void checkRoom(const char *function, size_t room, size_t count)
{
    if (count > room) {
        fakeMisuse(function, "%zu bytes are to go where %zu have room", count, room);
    }
    if (count == 0) {
        fakeMisuse(function, "0 bytes");
    }
}

static void checkApart(const char *function, const char *a, const char *b, size_t count)
{
    if (a < b + count && b < a + count) {
        fakeMisuse(function, "source and destination overlap");
    }
}

/* Checks both sides; `pinned` tells that the host's must be pinned. */
static void checkSides(const char *function, void *dst, const void *src, size_t count, aclrtMemcpyKind kind,
                       bool pinned)
{
    int32_t device = fakeDevice();
    bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    if (!from_device && !to_device) {
        fakeMisuse(function, "a copy from host to host");
    }
    if (from_device) {
        fakeCheckMemory(function, "source", src, count, device);
    } else if (pinned) {
        fakeCheckMemory(function, "source of an asynchronous copy", src, count, PINNED);
    }
    if (to_device) {
        fakeCheckMemory(function, "destination", dst, count, device);
    } else if (pinned) {
        fakeCheckMemory(function, "destination of an asynchronous copy", dst, count, PINNED);
    }
    checkApart(function, dst, src, count);
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    FAKE_CALL(NEEDS_DEVICE);
    checkRoom(__func__, destMax, count);
    checkSides(__func__, dst, src, count, kind, false);
    fakeCheckUnused(__func__, "synchronise is missing before a copy: queued work writes its source", src, count, true);
    fakeCheckUnused(__func__, "synchronise is missing before a copy: queued work uses its destination", dst, count,
                    false);
    memcpy(dst, src, count);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    FAKE_CALL(NEEDS_DEVICE);
    checkRoom(__func__, maxCount, count);
    fakeCheckMemory(__func__, "destination", devPtr, count, fakeDevice());
    fakeCheckUnused(__func__, "synchronise is missing before a fill: queued work uses the memory", devPtr, count, false);
    memset(devPtr, value, count);
    return ACL_SUCCESS;
}

/* --- in streams --------------------------------------------------------------------------------- */

typedef struct {
    char *dst;
    const char *src;
    size_t count;
    int32_t value;
    uint64_t sum; /* of a pinned source, when the copy was queued */
} Transfer;

static uint64_t sumOf(const char *data, size_t count)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ (unsigned char)data[i]) * 1099511628211u;
    }
    return sum;
}

static int32_t runCopy(void *data)
{
    Transfer *transfer = data;
    if (transfer->sum != 0 && sumOf(transfer->src, transfer->count) != transfer->sum) {
        fakeMisuse("aclrtMemcpyAsync", "the host's memory was changed before the copy was done");
    }
    memcpy(transfer->dst, transfer->src, transfer->count);
    return ACL_SUCCESS;
}

static int32_t runFill(void *data)
{
    Transfer *transfer = data;
    memset(transfer->dst, transfer->value, transfer->count);
    return ACL_SUCCESS;
}

static void queueTransfer(const char *function, int32_t (*run)(void *), Transfer values, aclrtStream stream)
{
    Transfer *transfer = malloc(sizeof *transfer);
    *transfer = values;
    FakeTask *task = fakeTask(function, run, free, transfer);
    fakeTaskUses(task, values.dst, values.count, true);
    if (values.src != NULL) {
        fakeTaskUses(task, values.src, values.count, false);
    }
    fakeQueue(task, stream);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    FAKE_CALL(NEEDS_DEVICE);
    checkRoom(__func__, destMax, count);
    checkSides(__func__, dst, src, count, kind, true);
    uint64_t sum = kind == ACL_MEMCPY_HOST_TO_DEVICE ? sumOf(src, count) : 0;
    queueTransfer(__func__, runCopy, (Transfer){dst, src, count, 0, sum}, stream);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    FAKE_CALL(NEEDS_DEVICE);
    checkRoom(__func__, maxCount, count);
    fakeCheckMemory(__func__, "destination", devPtr, count, fakeDevice());
    queueTransfer(__func__, runFill, (Transfer){devPtr, NULL, count, value, 0}, stream);
    return ACL_SUCCESS;
}
