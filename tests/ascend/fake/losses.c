/* Smooth L1 loss and its gradient, with the real ones' order of checks. */
#include "aclnnop/aclnn_smooth_l1_loss.h"
#include "aclnnop/aclnn_smooth_l1_loss_backward.h"
#include "checks.h"

#include <math.h>

enum { NONE, MEAN, SUM };

/* Where the values of a call are. */
enum { REDUCTION, BETA };

static void scratchForCast(FakeCallState *call, const aclTensor *tensor, aclDataType promoted)
{
    FakeTensor *is = fakeTensor(__func__, tensor);
    if (is->dtype != promoted) {
        fakeScratch(call, fakeElements(is) * (int64_t)fakeItemSize(promoted));
    }
}

/* The value of a tensor, cast to the type in which the inputs meet. */
static float input(const FakeTensor *tensor, int rank, const int64_t *index, aclDataType promoted)
{
    return (float)fakeRounded(fakeLoadBroadcast(tensor, rank, index), promoted);
}

/* --- gradient ----------------------------------------------------------------------------------- */

static float slope(float x, float beta)
{
    if (fabsf(x) < beta) {
        return x / beta;
    }
    return isnan(x) ? x : (float)(x > 0) - (float)(x < 0);
}

static int32_t computeBackward(FakeRun *run)
{
    const FakeTensor *grad = &run->tensors[0], *self = &run->tensors[1], *target = &run->tensors[2];
    const FakeTensor *out = &run->tensors[3];
    aclDataType promoted = fakePromote(fakePromote(grad->dtype, self->dtype), target->dtype);
    float beta = (float)run->values[BETA].real;
    float norm = run->values[REDUCTION].integer == MEAN ? 1.0f / (float)fakeElements(out) : 1.0f;
    int64_t index[MAX_RANK] = {0};
    if (fakeElements(out) == 0) {
        return 0;
    }
    do {
        float x = input(self, out->rank, index, promoted) - input(target, out->rank, index, promoted);
        float value = slope(x, beta) * input(grad, out->rank, index, promoted) * norm;
        fakeStore(out, index, fakeRounded(value, promoted));
    } while (fakeNext(out->rank, out->shape, index));
    return 0;
}

aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(const aclTensor *gradOut, const aclTensor *self,
                                                      const aclTensor *target, int64_t reduction, float beta,
                                                      aclTensor *gradInput, uint64_t *workspaceSize,
                                                      aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(gradOut)
    NOT_NULL(self)
    NOT_NULL(target)
    NOT_NULL(gradInput)
    FLOAT_TYPE(gradOut)
    FLOAT_TYPE(self)
    FLOAT_TYPE(target)
    FLOAT_TYPE(gradInput)
    const aclTensor *inputs[] = {gradOut, self, target};
    int64_t shape[MAX_RANK];
    int rank = 0;
    bool empty = false, fits = true;
    aclDataType promoted = gradOut->is->dtype;
    for (int i = 0; i < 3; i++) {
        CHECK(inputs[i]->is->rank <= 8, "an input has %d dimensions, more than 8", inputs[i]->is->rank)
        empty |= fakeElements(inputs[i]->is) == 0;
        promoted = fakePromote(promoted, inputs[i]->is->dtype);
    }
    CHECK(reduction >= NONE && reduction <= SUM, "reduction %lld is not among 0, 1, 2", (long long)reduction)
    CHECK(beta >= 0, "beta %g is not at least 0", (double)beta)
    for (int i = 0; i < 3; i++) {
        fits = fits && fakeBroadcast(inputs[i]->is, &rank, shape);
    }
    CHECK(fits && fakeSameShape(gradInput->is, rank, shape), "the shapes do not broadcast to that of gradInput")
    FakeCallState *call = fakeBegin("aclnnSmoothL1LossBackward", empty ? NULL : computeBackward, false);
    for (int i = 0; i < 3; i++) {
        fakeIn(call, inputs[i]);
        if (!empty) {
            scratchForCast(call, inputs[i], promoted);
        }
    }
    fakeOut(call, gradInput);
    fakeValues(call)[REDUCTION].integer = reduction;
    fakeValues(call)[BETA].real = beta;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnSmoothL1LossBackward)

/* --- loss --------------------------------------------------------------------------------------- */

static float loss(float x, float beta)
{
    return fabsf(x) < beta ? 0.5f * x * x / beta : fabsf(x) - 0.5f * beta;
}

static int32_t computeForward(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *target = &run->tensors[1], *out = &run->tensors[2];
    aclDataType promoted = fakePromote(self->dtype, target->dtype);
    int64_t shape[MAX_RANK], index[MAX_RANK] = {0}, first[MAX_RANK] = {0}, elements = 1;
    int rank = 0;
    fakeBroadcast(self, &rank, shape);
    fakeBroadcast(target, &rank, shape);
    for (int i = 0; i < rank; i++) {
        elements *= shape[i];
    }
    int64_t reduction = run->values[REDUCTION].integer;
    double sum = 0;
    bool more = elements > 0;
    while (more) {
        float x = input(self, rank, index, promoted) - input(target, rank, index, promoted);
        float value = loss(x, (float)run->values[BETA].real);
        sum += value;
        if (reduction == NONE) {
            fakeStore(out, index, fakeRounded(value, promoted));
        }
        more = fakeNext(rank, shape, index);
    }
    if (reduction != NONE) {
        double result = reduction == MEAN ? sum / (double)elements : sum;
        fakeStore(out, first, fakeRounded(result, promoted));
    }
    return 0;
}

aclnnStatus aclnnSmoothL1LossGetWorkspaceSize(const aclTensor *self, const aclTensor *target, int64_t reduction,
                                              float beta, aclTensor *result, uint64_t *workspaceSize,
                                              aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(target)
    NOT_NULL(result)
    FLOAT_TYPE(self)
    FLOAT_TYPE(target)
    aclDataType promoted = fakePromote(self->is->dtype, target->is->dtype);
    CHECK(fakeIsFloat(result->is->dtype) || result->is->dtype == ACL_COMPLEX64, "result cannot be cast to")
    CHECK(reduction >= NONE && reduction <= SUM, "reduction %lld is not among 0, 1, 2", (long long)reduction)
    CHECK(self->is->rank <= 8, "self has %d dimensions, more than 8", self->is->rank)
    CHECK(target->is->rank <= 8, "target has %d dimensions, more than 8", target->is->rank)
    int64_t shape[MAX_RANK];
    int rank = 0;
    CHECK(fakeBroadcast(self->is, &rank, shape) && fakeBroadcast(target->is, &rank, shape),
          "self and target do not broadcast together")
    CHECK(reduction != NONE || fakeSameShape(result->is, rank, shape), "result has not the broadcast shape")
    CHECK(beta >= 0, "beta %g is not at least 0", (double)beta)
    if (reduction != NONE && fakeElements(result->is) != 1) {
        return fakeError(ACLNN_ERR_INNER_NULLPTR, "result has not one element");
    }
    FakeCallState *call = fakeBegin("aclnnSmoothL1Loss", computeForward, false);
    fakeIn(call, self);
    fakeIn(call, target);
    fakeOut(call, result);
    scratchForCast(call, self, promoted);
    scratchForCast(call, target, promoted);
    scratchForCast(call, result, promoted);
    fakeValues(call)[REDUCTION].integer = reduction;
    fakeValues(call)[BETA].real = beta;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnSmoothL1Loss)
