/* Add, in place and not, multiply, cast. */
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_mul.h"
#include "checks.h"

enum { ALPHA };

static int32_t computeAdd(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *other = &run->tensors[1];
    const FakeTensor *out = &run->tensors[run->tensor_count - 1];
    int64_t index[MAX_RANK] = {0};
    bool more = fakeElements(out) > 0;
    while (more) {
        double a = fakeLoadBroadcast(self, out->rank, index), b = fakeLoadBroadcast(other, out->rank, index);
        fakeStore(out, index, a + run->values[ALPHA].real * b);
        more = fakeNext(out->rank, out->shape, index);
    }
    return 0;
}

static int32_t computeAddInPlace(FakeRun *run)
{
    FakeTensor tensors[] = {run->tensors[0], run->tensors[1], run->tensors[0]};
    FakeRun same = *run;
    same.tensors = tensors;
    same.tensor_count = 3;
    return computeAdd(&same);
}

static int32_t computeMul(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *other = &run->tensors[1], *out = &run->tensors[2];
    int64_t index[MAX_RANK] = {0};
    bool more = fakeElements(out) > 0;
    while (more) {
        double a = fakeLoadBroadcast(self, out->rank, index), b = fakeLoadBroadcast(other, out->rank, index);
        fakeStore(out, index, a * b);
        more = fakeNext(out->rank, out->shape, index);
    }
    return 0;
}

static bool broadcastsTo(const aclTensor *self, const aclTensor *other, const aclTensor *out)
{
    int64_t shape[MAX_RANK];
    int rank = 0;
    return fakeBroadcast(fakeTensor(__func__, self), &rank, shape) &&
           fakeBroadcast(fakeTensor(__func__, other), &rank, shape) &&
           fakeSameShape(fakeTensor(__func__, out), rank, shape);
}

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other, const aclScalar *alpha,
                                     aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(other)
    NOT_NULL(alpha)
    NOT_NULL(out)
    CHECK(broadcastsTo(self, other, out), "the shapes do not broadcast to that of out")
    FakeCallState *call = fakeBegin("aclnnAdd", computeAdd, false);
    fakeIn(call, self);
    fakeIn(call, other);
    fakeOut(call, out);
    fakeValues(call)[ALPHA].real = fakeScalarValue(alpha);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnAdd)

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *selfRef, const aclTensor *other,
                                            const aclScalar *alpha, uint64_t *workspaceSize,
                                            aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(selfRef)
    NOT_NULL(other)
    NOT_NULL(alpha)
    CHECK(broadcastsTo(selfRef, other, selfRef), "other does not broadcast to the shape of selfRef")
    FakeCallState *call = fakeBegin("aclnnInplaceAdd", computeAddInPlace, false);
    fakeInOut(call, selfRef);
    fakeIn(call, other);
    fakeValues(call)[ALPHA].real = fakeScalarValue(alpha);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnInplaceAdd)

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(other)
    NOT_NULL(out)
    CHECK(broadcastsTo(self, other, out), "the shapes do not broadcast to that of out")
    FakeCallState *call = fakeBegin("aclnnMul", computeMul, false);
    fakeIn(call, self);
    fakeIn(call, other);
    fakeOut(call, out);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnMul)

/* --- cast --------------------------------------------------------------------------------------- */

static int32_t computeCast(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *out = &run->tensors[1];
    int64_t index[MAX_RANK] = {0};
    bool more = fakeElements(out) > 0;
    while (more) {
        fakeStore(out, index, fakeLoad(self, index));
        more = fakeNext(out->rank, out->shape, index);
    }
    return 0;
}

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor *self, const aclDataType dtype, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(out)
    FakeTensor *from = fakeTensor(__func__, self), *to = fakeTensor(__func__, out);
    CHECK(to->dtype == dtype, "out has another type than dtype")
    CHECK(fakeSameShape(from, to->rank, to->shape), "self and out have different shapes")
    FakeCallState *call = fakeBegin("aclnnCast", computeCast, false);
    fakeIn(call, self);
    fakeOut(call, out);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnCast)
