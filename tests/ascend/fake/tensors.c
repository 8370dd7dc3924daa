/* Tensors: made, initialised again, destroyed, described. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    aclDataType dtype;
    size_t size;
} TYPES[] = {
    {ACL_FLOAT, 4},       {ACL_FLOAT16, 2},       {ACL_INT8, 1},       {ACL_INT32, 4},       {ACL_UINT8, 1},
    {ACL_INT16, 2},       {ACL_UINT16, 2},        {ACL_UINT32, 4},     {ACL_INT64, 8},       {ACL_UINT64, 8},
    {ACL_DOUBLE, 8},      {ACL_BOOL, 1},          {ACL_COMPLEX64, 8},  {ACL_COMPLEX128, 16}, {ACL_BF16, 2},
    {ACL_INT4, 0},        {ACL_UINT1, 0},         {ACL_COMPLEX32, 4},  {ACL_HIFLOAT8, 1},    {ACL_FLOAT8_E5M2, 1},
    {ACL_FLOAT8_E4M3FN, 1}, {ACL_FLOAT8_E8M0, 1}, {ACL_FLOAT6_E3M2, 0}, {ACL_FLOAT6_E2M3, 0}, {ACL_FLOAT4_E2M1, 0},
    {ACL_FLOAT4_E1M2, 0},
};

bool fakeKnownType(aclDataType dtype)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (TYPES[i].dtype == dtype) {
            return true;
        }
    }
    return false;
}

size_t fakeItemSize(aclDataType dtype)
{
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (TYPES[i].dtype == dtype) {
            return TYPES[i].size;
        }
    }
    return 0;
}

static void fill(const char *function, FakeTensor *is, const int64_t *viewDims, uint64_t viewDimsNum,
                 aclDataType dataType, const int64_t *stride, int64_t offset, aclFormat format,
                 const int64_t *storageDims, uint64_t storageDimsNum, void *data)
{
    if (viewDimsNum > MAX_RANK || storageDimsNum > MAX_RANK) {
        fakeMisuse(function, "more dimensions than a tensor has room for");
    }
    if ((viewDims == NULL && viewDimsNum > 0) || (storageDims == NULL && storageDimsNum > 0)) {
        fakeMisuse(function, "dimensions are null, but there are some");
    }
    if (!fakeKnownType(dataType)) {
        fakeMisuse(function, "%d is no element type of tensors", (int)dataType);
    }
    if ((uintptr_t)data % 32 != 0) {
        fakeMisuse(function, "the address %p is not a multiple of 32", data);
    }
    int64_t step = 1;
    for (int i = (int)viewDimsNum - 1; i >= 0; i--) {
        if (viewDims[i] < 0) {
            fakeMisuse(function, "dimension %d is negative", i);
        }
        is->shape[i] = viewDims[i];
        is->strides[i] = stride == NULL ? step : stride[i];
        step *= viewDims[i] > 1 ? viewDims[i] : 1;
    }
    for (uint64_t i = 0; i < storageDimsNum; i++) {
        is->storage[i] = storageDims[i];
    }
    is->rank = (int)viewDimsNum;
    is->storage_rank = (int)storageDimsNum;
    is->offset = offset;
    is->dtype = dataType;
    is->format = format;
    is->data = data;
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                           uint64_t storageDimsNum, void *tensorData)
{
    if (fakeCall(__func__, NEEDS_DEVICE) != 0) {
        return NULL;
    }
    if (viewDimsNum > MAX_RANK || storageDimsNum > MAX_RANK) {
        fakeError(ACLNN_ERR_INNER, "a tensor has room for %d dimensions", MAX_RANK);
        return NULL;
    }
    aclTensor *tensor = fakeNew(KIND_TENSOR, sizeof *tensor);
    tensor->is = calloc(1, sizeof *tensor->is);
    fill(__func__, tensor->is, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
         tensorData);
    return tensor;
}

static void checkNotPlanned(const char *function, const aclTensor *tensor)
{
    if (tensor->pins != 0) {
        fakeMisuse(function, "the tensor belongs to an executor between its two phases");
    }
}

aclnnStatus aclInitTensor(aclTensor *given, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                          uint64_t storageDimsNum, void *tensorDataAddr)
{
    FAKE_CALL(NEEDS_DEVICE);
    aclTensor *tensor = fakeUse(__func__, given, KIND_TENSOR);
    checkNotPlanned(__func__, tensor);
    /* What the real one leaves as it was. */
    if (viewDimsNum == 0 || storageDimsNum == 0 || tensorDataAddr == NULL) {
        fakeMisuse(__func__, "without dimensions or address the old ones stay in force");
    }
    fill(__func__, tensor->is, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
         tensorDataAddr);
    return OK;
}

aclnnStatus aclDestroyTensor(const aclTensor *given)
{
    FAKE_CALL(NEEDS_DEVICE);
    if (given == NULL) {
        return OK;
    }
    aclTensor *tensor = fakeEnd(__func__, given, KIND_TENSOR);
    if (tensor->in_list != NULL) {
        fakeMisuse(__func__, "the tensor belongs to a list, which destroys it");
    }
    checkNotPlanned(__func__, tensor);
    free(tensor->is);
    return OK;
}

/* --- what operators ask ------------------------------------------------------------------------- */

FakeTensor *fakeTensor(const char *function, const aclTensor *tensor)
{
    return ((aclTensor *)fakeUse(function, tensor, KIND_TENSOR))->is;
}

int64_t fakeElements(const FakeTensor *tensor)
{
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        elements *= tensor->shape[i];
    }
    return elements;
}

bool fakeContiguous(const FakeTensor *tensor)
{
    int64_t step = 1;
    if (fakeElements(tensor) <= 1) {
        return true;
    }
    for (int i = tensor->rank - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != step) {
            return false;
        }
        step *= tensor->shape[i];
    }
    return true;
}

void fakeReach(const FakeTensor *tensor, int64_t *low, int64_t *high)
{
    *low = *high = tensor->offset;
    for (int i = 0; i < tensor->rank; i++) {
        int64_t span = (tensor->shape[i] - 1) * tensor->strides[i];
        *low += span < 0 ? span : 0;
        *high += span > 0 ? span : 0;
    }
    *high += 1;
}
