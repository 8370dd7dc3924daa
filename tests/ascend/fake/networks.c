/* Relu, softmax, matrix product. */
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_softmax.h"
#include "checks.h"

#include <math.h>

static int32_t computeRelu(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *out = &run->tensors[1];
    int64_t index[MAX_RANK] = {0};
    bool more = fakeElements(out) > 0;
    while (more) {
        double value = fakeLoad(self, index);
        fakeStore(out, index, value < 0 ? 0 : value);
        more = fakeNext(out->rank, out->shape, index);
    }
    return 0;
}

aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor *self, const aclTensor *out, uint64_t *workspaceSize,
                                      aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(out)
    FakeTensor *from = fakeTensor(__func__, self), *to = fakeTensor(__func__, out);
    CHECK(fakeSameShape(from, to->rank, to->shape), "self and out have different shapes")
    CHECK(from->dtype == to->dtype, "self and out have different types")
    FakeCallState *call = fakeBegin("aclnnRelu", computeRelu, false);
    fakeIn(call, self);
    fakeOut(call, out);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnRelu)

/* --- softmax ------------------------------------------------------------------------------------ */

enum { DIM };

static void softmaxLine(const FakeTensor *self, const FakeTensor *out, int64_t *index, int64_t dim)
{
    double largest = -INFINITY, sum = 0;
    for (index[dim] = 0; index[dim] < self->shape[dim]; index[dim]++) {
        largest = fmax(largest, fakeLoad(self, index));
    }
    for (index[dim] = 0; index[dim] < self->shape[dim]; index[dim]++) {
        sum += exp(fakeLoad(self, index) - largest);
    }
    for (index[dim] = 0; index[dim] < self->shape[dim]; index[dim]++) {
        fakeStore(out, index, exp(fakeLoad(self, index) - largest) / sum);
    }
    index[dim] = 0;
}

static int32_t computeSoftmax(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *out = &run->tensors[1];
    int64_t dim = run->values[DIM].integer, index[MAX_RANK] = {0}, lines[MAX_RANK];
    for (int i = 0; i < out->rank; i++) {
        lines[i] = i == dim ? 1 : out->shape[i];
    }
    bool more = fakeElements(out) > 0;
    while (more) {
        softmaxLine(self, out, index, dim);
        more = fakeNext(out->rank, lines, index);
    }
    return 0;
}

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim, aclTensor *out, uint64_t *workspaceSize,
                                         aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(out)
    FLOAT_TYPE(self)
    FakeTensor *from = fakeTensor(__func__, self), *to = fakeTensor(__func__, out);
    CHECK(fakeSameShape(from, to->rank, to->shape), "self and out have different shapes")
    dim += dim < 0 ? from->rank : 0;
    CHECK(dim >= 0 && dim < from->rank, "self has no dimension %lld", (long long)dim)
    FakeCallState *call = fakeBegin("aclnnSoftmax", computeSoftmax, false);
    fakeIn(call, self);
    fakeOut(call, out);
    fakeValues(call)[DIM].integer = dim;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnSoftmax)

/* --- matrix product ----------------------------------------------------------------------------- */

static int32_t computeMatmul(FakeRun *run)
{
    const FakeTensor *self = &run->tensors[0], *mat2 = &run->tensors[1], *out = &run->tensors[2];
    int64_t index[2];
    for (index[0] = 0; index[0] < out->shape[0]; index[0]++) {
        for (index[1] = 0; index[1] < out->shape[1]; index[1]++) {
            float sum = 0;
            for (int64_t k = 0; k < self->shape[1]; k++) {
                int64_t a[] = {index[0], k}, b[] = {k, index[1]};
                sum += (float)fakeLoad(self, a) * (float)fakeLoad(mat2, b);
            }
            fakeStore(out, index, sum);
        }
    }
    return 0;
}

aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor *self, const aclTensor *mat2, aclTensor *out,
                                        int8_t cubeMathType, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(mat2)
    NOT_NULL(out)
    FakeTensor *a = fakeTensor(__func__, self), *b = fakeTensor(__func__, mat2), *to = fakeTensor(__func__, out);
    CHECK(a->rank == 2 && b->rank == 2 && a->shape[1] == b->shape[0], "self and mat2 do not multiply")
    int64_t shape[] = {a->shape[0], b->shape[1]};
    CHECK(fakeSameShape(to, 2, shape), "out has not the shape of the product")
    CHECK(cubeMathType >= 0 && cubeMathType <= 3, "cubeMathType %d is not among 0 to 3", cubeMathType)
    FakeCallState *call = fakeBegin("aclnnMatmul", computeMatmul, false);
    fakeIn(call, self);
    fakeIn(call, mat2);
    fakeOut(call, out);
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnMatmul)

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize)
{
    (void)tensorShape;
    *weightTensorSize = 0;
    return OK;
}
