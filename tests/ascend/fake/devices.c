/* Start and end of ACL, and devices. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t uses; /* aclrtSetDevice less aclrtResetDevice */
    int32_t threads;
    int64_t deterministic;
} Device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Device devices[MAX_DEVICES];
static bool initialised, finalised;
static _Thread_local int32_t current = -1;
static _Thread_local bool seen[MAX_DEVICES];

static uint32_t deviceCount(void)
{
    const char *text = getenv("FAKE_CANN_DEVICES");
    return text == NULL ? 2 : (uint32_t)atoi(text);
}

bool fakeInitialised(void) { return initialised; }

int32_t fakeDevice(void) { return current; }

const char *fakeSoc(void)
{
    const char *text = getenv("FAKE_CANN_SOC");
    return text == NULL ? "Ascend910B2" : text;
}

/* Ends the process when something is left that should be gone by now; device -1 is no device. */
static void checkGone(const char *function, int32_t device)
{
    static const char *const NAMES[KINDS] = {
        "tensors", "scalars", "int arrays", "float arrays", "bool arrays",
        "tensor lists", "scalar lists", "executors", "streams", "events",
    };
    for (int kind = KINDS - 1; kind >= 0; kind--) {
        int64_t left = fakeLiveOn(device, (FakeKind)kind);
        if (left != 0) {
            fakeMisuse(function, "%lld live %s are left", (long long)left, NAMES[kind]);
        }
    }
    if (device >= 0 && fakeAllocations(device) != 0) {
        fakeMisuse(function, "%lld allocations are left", (long long)fakeAllocations(device));
    }
}

aclError aclInit(const char *configPath)
{
    (void)configPath;
    FAKE_CALL(NEEDS_NOTHING);
    if (getenv("FAKE_CANN_CRASH") != NULL) {
        abort(); /* as the real one may, where driver and CANN do not fit each other */
    }
    if (initialised) {
        return fakeError(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
    }
    initialised = true;
    finalised = false;
    return ACL_SUCCESS;
}

aclError aclFinalize(void)
{
    if (finalised) {
        fakeMisuse(__func__, "called a second time");
    }
    FAKE_CALL(NEEDS_INIT);
    for (int32_t device = 0; device < MAX_DEVICES; device++) {
        if (devices[device].uses != 0) {
            fakeMisuse(__func__, "wrong order at shutdown: device %d was not reset", device);
        }
    }
    checkGone(__func__, -1);
    if (fakeAllocations(-2) != 0) {
        fakeMisuse(__func__, "%lld pinned allocations are left", (long long)fakeAllocations(-2));
    }
    initialised = false;
    finalised = true;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
    return fakeCall(__func__, NEEDS_INIT) != 0 ? NULL : fakeSoc();
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    FAKE_CALL(NEEDS_NOTHING);
    strcpy(versionStr, strcmp(pkgName, "runtime") == 0 ? "9.9.0-fake" : "9.9.1-fake");
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    FAKE_CALL(NEEDS_INIT);
    *count = deviceCount();
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    FAKE_CALL(NEEDS_INIT);
    if (deviceId < 0 || (uint32_t)deviceId >= deviceCount()) {
        return fakeError(ACL_ERROR_RT_INVALID_DEVICEID, "there is no device %d", deviceId);
    }
    pthread_mutex_lock(&lock);
    devices[deviceId].uses++;
    devices[deviceId].threads += !seen[deviceId];
    pthread_mutex_unlock(&lock);
    seen[deviceId] = true;
    current = deviceId;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    FAKE_CALL(NEEDS_INIT);
    if (deviceId < 0 || deviceId >= MAX_DEVICES || devices[deviceId].uses == 0) {
        fakeMisuse(__func__, "device %d is reset more often than set", deviceId);
    }
    if (devices[deviceId].uses == 1) {
        checkGone(__func__, deviceId);
    }
    pthread_mutex_lock(&lock);
    devices[deviceId].uses--;
    devices[deviceId].deterministic = 0;
    pthread_mutex_unlock(&lock);
    current = -1;
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    FAKE_CALL(NEEDS_DEVICE);
    if (opt != ACL_OPT_DETERMINISTIC || value < 0 || value > 3) {
        return fakeError(ACL_ERROR_INVALID_PARAM, "there is no such option or value");
    }
    devices[current].deterministic = value;
    return ACL_SUCCESS;
}

int64_t fakeDeviceUses(void)
{
    int64_t uses = 0;
    for (int32_t device = 0; device < MAX_DEVICES; device++) {
        uses += devices[device].uses;
    }
    return uses;
}

int32_t fakeThreads(int32_t device) { return devices[device].threads; }

int64_t fakeDeterministic(int32_t device) { return devices[device].deterministic; }
