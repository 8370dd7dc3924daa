/* Memory of devices, which is really the host's, and pinned memory. Freed memory is poisoned. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALLOCATIONS = 65536, PINNED = -2, GUARD = 64, FRESH = 0xCD, GUARDED = 0xFD, FREED = 0xDD };
enum { MAX_QUARANTINE = 64 << 20 };

typedef struct {
    char *data;
    size_t size;
    int32_t device; /* PINNED: of the host */
} Allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Allocation allocations[MAX_ALLOCATIONS];
static int allocation_count;
static int64_t used[MAX_DEVICES];
static Allocation quarantine[MAX_ALLOCATIONS];
static int quarantine_first, quarantine_count;
static size_t quarantine_bytes;

static int64_t totalBytes(void)
{
    const char *text = getenv("FAKE_CANN_MEMORY");
    return text == NULL ? (int64_t)1 << 30 : atoll(text);
}

/* Index of the live allocation that holds the address, or -1. Under the lock. */
static int indexOf(const char *address)
{
    for (int i = 0; i < allocation_count; i++) {
        if (address >= allocations[i].data && address < allocations[i].data + allocations[i].size) {
            return i;
        }
    }
    return -1;
}

static void *allocate(const char *function, size_t size, int32_t device)
{
    void *data = NULL;
    if (allocation_count == MAX_ALLOCATIONS || posix_memalign(&data, 64, size + GUARD) != 0) {
        fakeMisuse(function, "the double itself has no room for %zu bytes", size);
    }
    memset(data, FRESH, size);
    memset((char *)data + size, GUARDED, GUARD);
    allocations[allocation_count++] = (Allocation){data, size, device};
    return data;
}

/* Keeps freed memory out of use for a while, poisoned. Under the lock. */
static void retire(Allocation freed)
{
    memset(freed.data, FREED, freed.size);
    int last = (quarantine_first + quarantine_count++) % MAX_ALLOCATIONS;
    quarantine[last] = freed;
    quarantine_bytes += freed.size;
    while (quarantine_bytes > MAX_QUARANTINE || quarantine_count == MAX_ALLOCATIONS) {
        Allocation oldest = quarantine[quarantine_first];
        for (size_t i = 0; i < oldest.size; i++) {
            if ((unsigned char)oldest.data[i] != FREED) {
                fakeMisuse("aclrtFree", "freed memory was written to");
            }
        }
        free(oldest.data);
        quarantine_first = (quarantine_first + 1) % MAX_ALLOCATIONS;
        quarantine_count--;
        quarantine_bytes -= oldest.size;
    }
}

static void release(const char *function, void *data, bool pinned)
{
    pthread_mutex_lock(&lock);
    int index = indexOf(data);
    if (index < 0 || allocations[index].data != data || (allocations[index].device == PINNED) != pinned) {
        fakeMisuse(function, "%p is not the start of live %s memory", data, pinned ? "pinned" : "device");
    }
    Allocation freed = allocations[index];
    for (int i = 0; i < GUARD; i++) {
        if ((unsigned char)freed.data[freed.size + i] != GUARDED) {
            fakeMisuse(function, "something wrote past the end of %zu bytes", freed.size);
        }
    }
    allocations[index] = allocations[--allocation_count];
    if (!pinned) {
        used[freed.device] -= (int64_t)freed.size;
    }
    pthread_mutex_unlock(&lock);
    fakeCheckUnused(function, "memory is freed that queued work uses", data, freed.size, false);
    pthread_mutex_lock(&lock);
    retire(freed);
    pthread_mutex_unlock(&lock);
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    FAKE_CALL(NEEDS_DEVICE);
    if (size == 0) {
        fakeMisuse(__func__, "0 bytes were asked for");
    }
    pthread_mutex_lock(&lock);
    int32_t device = fakeDevice();
    int64_t room = totalBytes() - used[device];
    if ((int64_t)size > room) {
        pthread_mutex_unlock(&lock);
        return fakeError(ACL_ERROR_RT_MEMORY_ALLOCATION, "no room for %zu bytes; %lld are free", size,
                         (long long)room);
    }
    *devPtr = allocate(__func__, size, device);
    used[device] += (int64_t)size;
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtFree(void *devPtr)
{
    FAKE_CALL(NEEDS_DEVICE);
    release(__func__, devPtr, false);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    FAKE_CALL(NEEDS_DEVICE);
    if (size == 0) {
        fakeMisuse(__func__, "0 bytes were asked for");
    }
    pthread_mutex_lock(&lock);
    *hostPtr = allocate(__func__, size, PINNED);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void *hostPtr)
{
    FAKE_CALL(NEEDS_DEVICE);
    release(__func__, hostPtr, true);
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free_bytes, size_t *total)
{
    FAKE_CALL(NEEDS_DEVICE);
    bool hbm = attr == ACL_HBM_MEM;
    *total = hbm ? (size_t)totalBytes() : 0;
    *free_bytes = hbm ? (size_t)(totalBytes() - used[fakeDevice()]) : 0;
    return ACL_SUCCESS;
}

/* --- what the rest of the double asks ----------------------------------------------------------- */

void fakeCheckMemory(const char *function, const char *what, const void *data, size_t size, int32_t device)
{
    pthread_mutex_lock(&lock);
    int index = indexOf(data);
    if (index < 0) {
        fakeMisuse(function, "%s: %p is not in live memory: freed, or never allocated", what, data);
    }
    Allocation found = allocations[index];
    if (found.device != device) {
        fakeMisuse(function, "%s: memory of device %d, where that of %d is expected (-2 is pinned)", what,
                   found.device, device);
    }
    if ((const char *)data + size > found.data + found.size) {
        fakeMisuse(function, "%s: %zu bytes reach past the end of an allocation of %zu", what, size, found.size);
    }
    pthread_mutex_unlock(&lock);
}

int64_t fakeAllocations(int32_t device)
{
    int64_t result = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < allocation_count; i++) {
        int32_t of = allocations[i].device;
        result += device == -1 ? of != PINNED : of == device;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int64_t fakeUsedBytes(int32_t device)
{
    pthread_mutex_lock(&lock);
    int64_t bytes = used[device];
    pthread_mutex_unlock(&lock);
    return bytes;
}
