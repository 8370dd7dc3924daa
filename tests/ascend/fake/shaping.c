/* Concatenation, splitting and sums along dimensions. */
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_split_tensor.h"
#include "checks.h"

enum { DIM };

/* Copies between a whole and its parts, which lie behind each other along a dimension. */
static void copyParts(const FakeTensor *whole, const FakeTensor *parts, int count, int64_t dim, bool join)
{
    int64_t begin = 0;
    for (int i = 0; i < count; i++) {
        int64_t index[MAX_RANK] = {0}, there[MAX_RANK];
        bool more = fakeElements(&parts[i]) > 0;
        while (more) {
            for (int k = 0; k < whole->rank; k++) {
                there[k] = index[k] + (k == dim ? begin : 0);
            }
            if (join) {
                fakeStore(whole, there, fakeLoad(&parts[i], index));
            } else {
                fakeStore(&parts[i], index, fakeLoad(whole, there));
            }
            more = fakeNext(parts[i].rank, parts[i].shape, index);
        }
        begin += parts[i].shape[dim];
    }
}

static int32_t computeCat(FakeRun *run)
{
    int count = run->tensor_count - 1;
    copyParts(&run->tensors[count], run->tensors, count, run->values[DIM].integer, true);
    return 0;
}

static int32_t computeSplit(FakeRun *run)
{
    copyParts(&run->tensors[0], &run->tensors[1], run->tensor_count - 1, run->values[DIM].integer, false);
    return 0;
}

static bool partsFit(const FakeTensor *whole, const aclTensorList *list, int64_t dim)
{
    int64_t sum = 0;
    if (dim < 0 || dim >= whole->rank) {
        return false;
    }
    for (uint64_t i = 0; i < list->size; i++) {
        const FakeTensor *part = list->items[i]->is;
        for (int k = 0; k < whole->rank; k++) {
            if (part->rank != whole->rank || (k != dim && part->shape[k] != whole->shape[k])) {
                return false;
            }
        }
        sum += part->shape[dim];
    }
    return sum == whole->shape[dim];
}

aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList *tensors, int64_t dim, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(tensors)
    NOT_NULL(out)
    fakeUse(__func__, tensors, KIND_TENSOR_LIST);
    FakeTensor *whole = fakeTensor(__func__, out);
    dim += dim < 0 ? whole->rank : 0;
    CHECK(partsFit(whole, tensors, dim), "the tensors do not join to the shape of out")
    FakeCallState *call = fakeBegin("aclnnCat", computeCat, false);
    fakeInList(call, tensors);
    fakeOut(call, out);
    fakeValues(call)[DIM].integer = dim;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnCat)

aclnnStatus aclnnSplitTensorGetWorkspaceSize(const aclTensor *self, uint64_t splitSections, int64_t dim,
                                             aclTensorList *out, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(out)
    fakeUse(__func__, out, KIND_TENSOR_LIST);
    FakeTensor *whole = fakeTensor(__func__, self);
    dim += dim < 0 ? whole->rank : 0;
    CHECK(partsFit(whole, out, dim), "out does not join to the shape of self")
    CHECK(out->size == 0 || (uint64_t)out->items[0]->is->shape[dim] == splitSections,
          "the first part is not as long as splitSections says")
    FakeCallState *call = fakeBegin("aclnnSplitTensor", computeSplit, false);
    fakeIn(call, self);
    fakeOutList(call, out);
    fakeValues(call)[DIM].integer = dim;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnSplitTensor)

/* --- sums --------------------------------------------------------------------------------------- */

enum { REDUCED, KEEP };

static void indexOfSum(const FakeTensor *self, const int64_t *index, int64_t reduced, bool keep, int64_t *own)
{
    int next = 0;
    for (int i = 0; i < self->rank; i++) {
        bool gone = reduced >> i & 1;
        if (!gone || keep) {
            own[next++] = gone ? 0 : index[i];
        }
    }
}

static int32_t computeSum(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *out = &run->tensors[1];
    int64_t index[MAX_RANK] = {0}, own[MAX_RANK] = {0};
    bool more = fakeElements(out) > 0;
    while (more) {
        fakeStore(out, index, 0);
        more = fakeNext(out->rank, out->shape, index);
    }
    more = fakeElements(self) > 0;
    while (more) {
        indexOfSum(self, index, run->values[REDUCED].integer, run->values[KEEP].integer != 0, own);
        fakeStore(out, own, fakeLoad(out, own) + fakeLoad(self, index));
        more = fakeNext(self->rank, self->shape, index);
    }
    return 0;
}

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keepDims,
                                           aclDataType dtype, aclTensor *out, uint64_t *workspaceSize,
                                           aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(dims)
    NOT_NULL(out)
    fakeUse(__func__, dims, KIND_INT_ARRAY);
    FakeTensor *from = fakeTensor(__func__, self), *to = fakeTensor(__func__, out);
    CHECK(to->dtype == dtype, "out has another type than dtype")
    int64_t reduced = dims->size == 0 ? ((int64_t)1 << from->rank) - 1 : 0, shape[MAX_RANK];
    int rank = 0;
    for (uint64_t i = 0; i < dims->size; i++) {
        int64_t dim = dims->items[i] + (dims->items[i] < 0 ? from->rank : 0);
        CHECK(dim >= 0 && dim < from->rank, "dims has %lld", (long long)dims->items[i])
        reduced |= (int64_t)1 << dim;
    }
    for (int i = 0; i < from->rank; i++) {
        if (!(reduced >> i & 1) || keepDims) {
            shape[rank++] = reduced >> i & 1 ? 1 : from->shape[i];
        }
    }
    CHECK(fakeSameShape(to, rank, shape), "out has not the shape that is left")
    FakeCallState *call = fakeBegin("aclnnReduceSum", computeSum, false);
    fakeIn(call, self);
    fakeOut(call, out);
    fakeValues(call)[REDUCED].integer = reduced;
    fakeValues(call)[KEEP].integer = keepDims;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnReduceSum)
