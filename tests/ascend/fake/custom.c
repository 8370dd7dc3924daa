/* The operator of a custom package. */
#include "custom/op_api/include/aclnn_custom_scale.h"
#include "aclnn/aclnn_base.h"
#include "checks.h"

static int32_t compute(FakeRun *run)
{
    const FakeTensor *x = &run->tensors[0], *y = &run->tensors[1], *scale = &run->tensors[2];
    int64_t index[MAX_RANK] = {0}, first[MAX_RANK] = {0};
    double factor = scale->rank < 0 ? 2 : fakeLoad(scale, first);
    bool more = fakeElements(y) > 0;
    while (more) {
        fakeStore(y, index, fakeLoad(x, index) * factor);
        more = fakeNext(y->rank, y->shape, index);
    }
    return 0;
}

aclnnStatus aclnnCustomScaleGetWorkspaceSize(const aclTensor *x, const aclTensor *yOut, const aclTensor *scaleOptional,
                                             uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(x)
    NOT_NULL(yOut)
    FakeTensor *from = fakeTensor(__func__, x), *to = fakeTensor(__func__, yOut);
    CHECK(fakeSameShape(from, to->rank, to->shape), "x and yOut have different shapes")
    FakeCallState *call = fakeBegin("aclnnCustomScale", compute, true);
    fakeIn(call, x);
    fakeOut(call, yOut);
    fakeIn(call, scaleOptional);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnCustomScale)
