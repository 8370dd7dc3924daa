/* Operators as the real build generates them: const outputs, and executors that check sizes and positions. */
#include "aclnnop/level2/aclnn_foreach_add_scalar_list.h"
#include "aclnnop/level2/aclnn_rms_norm.h"
#include "aclnn/aclnn_base.h"
#include "checks.h"

#include <math.h>
#include <stdlib.h>

enum { EPSILON };

static int32_t computeRmsNorm(FakeRun *run)
{
    const FakeTensor *x = &run->tensors[0], *gamma = &run->tensors[1], *y = &run->tensors[2], *rstd = &run->tensors[3];
    int64_t index[MAX_RANK] = {0}, lines[MAX_RANK], last = x->rank - 1, count = x->shape[last];
    for (int i = 0; i <= last; i++) {
        lines[i] = i == last ? 1 : x->shape[i];
    }
    bool more = fakeElements(x) > 0;
    while (more) {
        double squares = 0;
        for (index[last] = 0; index[last] < count; index[last]++) {
            squares += fakeLoad(x, index) * fakeLoad(x, index);
        }
        double scale = 1 / sqrt(squares / (double)count + run->values[EPSILON].real);
        for (index[last] = 0; index[last] < count; index[last]++) {
            fakeStore(y, index, fakeLoad(x, index) * scale * fakeLoad(gamma, &index[last]));
        }
        index[last] = 0;
        fakeStore(rstd, index, scale);
        more = fakeNext(x->rank, lines, index);
    }
    return 0;
}

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double epsilon,
                                         const aclTensor *yOut, const aclTensor *rstdOut, uint64_t *workspaceSize,
                                         aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(x)
    NOT_NULL(gamma)
    NOT_NULL(yOut)
    NOT_NULL(rstdOut)
    FakeTensor *from = fakeTensor(__func__, x), *to = fakeTensor(__func__, yOut);
    FakeTensor *rstd = fakeTensor(__func__, rstdOut);
    CHECK(from->rank > 0 && fakeSameShape(from, to->rank, to->shape), "x and yOut have different shapes")
    CHECK(rstd->rank == from->rank, "rstdOut has another number of dimensions than x")
    FakeCallState *call = fakeBegin("aclnnRmsNorm", computeRmsNorm, true);
    fakeIn(call, x);
    fakeIn(call, gamma);
    fakeOut(call, yOut);
    fakeOut(call, rstdOut);
    fakeScratch(call, 16);
    fakeValues(call)[EPSILON].real = epsilon;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnRmsNorm)

/* --- lists -------------------------------------------------------------------------------------- */

static int32_t computeForeach(FakeRun *run)
{
    int count = run->tensor_count / 2;
    const double *addends = run->values[0].pointer;
    for (int i = 0; i < count; i++) {
        const FakeTensor *x = &run->tensors[i], *out = &run->tensors[count + i];
        int64_t index[MAX_RANK] = {0};
        bool more = fakeElements(out) > 0;
        while (more) {
            fakeStore(out, index, fakeLoad(x, index) + addends[i]);
            more = fakeNext(out->rank, out->shape, index);
        }
    }
    return 0;
}

aclnnStatus aclnnForeachAddScalarListGetWorkspaceSize(const aclTensorList *x, const aclScalarList *scalars,
                                                      const aclTensorList *out, uint64_t *workspaceSize,
                                                      aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(x)
    NOT_NULL(scalars)
    NOT_NULL(out)
    fakeUse(__func__, x, KIND_TENSOR_LIST);
    fakeUse(__func__, scalars, KIND_SCALAR_LIST);
    fakeUse(__func__, out, KIND_TENSOR_LIST);
    CHECK(x->size == out->size && x->size == scalars->size, "the lists have different lengths")
    double *addends = malloc(x->size * sizeof *addends + 1);
    for (uint64_t i = 0; i < x->size; i++) {
        const FakeTensor *to = out->items[i]->is;
        CHECK(fakeSameShape(x->items[i]->is, to->rank, to->shape), "element %d has different shapes", (int)i)
        addends[i] = fakeScalarValue(scalars->items[i]);
    }
    FakeCallState *call = fakeBegin("aclnnForeachAddScalarList", computeForeach, true);
    fakeInList(call, x);
    fakeOutList(call, out);
    fakeValues(call)[0].pointer = addends;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnForeachAddScalarList)
