/* Inside of tensors, lists and executors, for the operators of the double. */
#ifndef FAKE_OBJECTS_H
#define FAKE_OBJECTS_H

#include "aclnn/acl_meta.h"
#include "fake.h"

/* The real ones have room for 25 dimensions too. */
enum { MAX_RANK = 25, MAX_TENSORS = 32, MAX_VALUES = 24 };

typedef struct {
    int rank, storage_rank;
    int64_t shape[MAX_RANK], strides[MAX_RANK], storage[MAX_RANK];
    int64_t offset;
    aclDataType dtype;
    aclFormat format;
    char *data;
} FakeTensor;

struct aclTensor {
    FakeHandle handle;
    FakeTensor *is;
    int pins;            /* executors that were planned with it and not run */
    const void *in_list; /* which destroys it */
};

struct aclScalar {
    FakeHandle handle;
    aclDataType dtype;
    unsigned char bytes[16];
    const void *in_list;
};

/* Int, float and bool arrays, and lists: `items` has elements of the kind's own type. */
struct aclIntArray {
    FakeHandle handle;
    uint64_t size;
    int64_t *items;
};
struct aclFloatArray {
    FakeHandle handle;
    uint64_t size;
    float *items;
};
struct aclBoolArray {
    FakeHandle handle;
    uint64_t size;
    bool *items;
};
struct aclTensorList {
    FakeHandle handle;
    uint64_t size;
    aclTensor **items;
};
struct aclScalarList {
    FakeHandle handle;
    uint64_t size;
    aclScalar **items;
};

/* --- tensors ------------------------------------------------------------------------------------ */

FAKE_API FakeTensor *fakeTensor(const char *function, const aclTensor *tensor);
FAKE_API int64_t fakeElements(const FakeTensor *tensor);
FAKE_API bool fakeContiguous(const FakeTensor *tensor);
/* First and one past the last element of the storage that the view touches. */
FAKE_API void fakeReach(const FakeTensor *tensor, int64_t *low, int64_t *high);
/* Bytes of an element; 0 for types that are packed. */
FAKE_API size_t fakeItemSize(aclDataType dtype);
FAKE_API bool fakeKnownType(aclDataType dtype);
FAKE_API double fakeScalarValue(const aclScalar *scalar);

/* --- calls -------------------------------------------------------------------------------------- */

typedef union {
    int64_t integer;
    double real;
    void *pointer; /* what it points to is never freed */
} FakeValue;

/* What is computed on the stream: copies of the tensors as they were when it was queued. */
typedef struct FakeRun {
    FakeTensor *tensors; /* in the order in which they were added; null ones have rank -1 */
    int tensor_count;
    FakeValue values[MAX_VALUES];
    char *workspace;
    size_t workspace_size;
    int32_t (*compute)(struct FakeRun *run);
} FakeRun;

typedef int32_t (*FakeCompute)(FakeRun *run);
typedef struct FakeCallState FakeCallState;

/* Phase one, in order: begin, add the tensors in the prototype's order, set values, finish. */
FAKE_API FakeCallState *fakeBegin(const char *operator_name, FakeCompute compute, bool individual);
FAKE_API void fakeIn(FakeCallState *call, const aclTensor *tensor);
FAKE_API void fakeOut(FakeCallState *call, const aclTensor *tensor);
FAKE_API void fakeInOut(FakeCallState *call, const aclTensor *tensor);
FAKE_API void fakeInList(FakeCallState *call, const aclTensorList *list);
FAKE_API void fakeOutList(FakeCallState *call, const aclTensorList *list);
FAKE_API FakeValue *fakeValues(FakeCallState *call);
/* Scratch memory for that many bytes, as the real allocator rounds them. */
FAKE_API void fakeScratch(FakeCallState *call, int64_t bytes);
FAKE_API aclnnStatus fakeFinish(FakeCallState *call, uint64_t *workspaceSize, aclOpExecutor **executor);
/* Phase two. */
FAKE_API aclnnStatus fakeExecute(const char *operator_name, void *workspace, uint64_t workspaceSize,
                                 aclOpExecutor *executor, aclrtStream stream);

/* Beginning of every phase one, and all of a phase two. */
#define FAKE_PHASE_ONE                                                      \
    FAKE_CALL(NEEDS_DEVICE);                                                \
    if (workspaceSize == NULL || executor == NULL) {                        \
        return fakeError(ACLNN_ERR_PARAM_NULLPTR, "workspaceSize or executor is null"); \
    }

#define FAKE_PHASE_TWO(name)                                                                          \
    ACLNN_API aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,      \
                               aclrtStream stream)                                                    \
    {                                                                                                 \
        return fakeExecute(#name, workspace, workspaceSize, executor, stream);                        \
    }

#endif
