/* The C calls of one two-phase call, many times: what the same call through Python is compared with. */
#include "aclnnop/aclnn_smooth_l1_loss_backward.h"

#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Microseconds of each of `count` calls, on the calling thread; -1 where one failed. */
__attribute__((visibility("default"))) double loopTwoPhase(int device, int count, double *microseconds)
{
    int64_t shape[] = {4, 8}, strides[] = {8, 1};
    aclTensor *tensors[4];
    void *memory, *at[4];
    aclrtStream stream;
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    aclrtSetDevice(device);
    aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtCreateStream(&stream);
    for (int i = 0; i < 4; i++) {
        at[i] = (char *)memory + 512 * i;
        tensors[i] = aclCreateTensor(shape, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 2, at[i]);
    }
    for (int i = 0; i < count; i++) {
        double begin = now();
        if (aclnnSmoothL1LossBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], 1, 1.0f, tensors[3], &size,
                                                      &executor) != 0 ||
            aclnnSmoothL1LossBackward(NULL, size, executor, stream) != 0) {
            return -1;
        }
        microseconds[i] = now() - begin;
        if (i % 64 == 63) {
            aclrtSynchronizeStream(stream);
        }
    }
    aclrtSynchronizeStream(stream);
    for (int i = 0; i < 4; i++) {
        aclDestroyTensor(tensors[i]);
    }
    aclrtDestroyStream(stream);
    aclrtFree(memory);
    aclrtResetDevice(device);
    return 0;
}
