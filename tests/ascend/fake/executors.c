/* Executors: what phase one makes, phase two runs, and how one is run again with other addresses. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

/* A parameter of the operator that holds tensors: one, or a list. */
typedef struct {
    const void *object; /* aclTensor or aclTensorList; NULL where the argument is null */
    int first, count;   /* its tensors */
    bool in_place;
} Holder;

struct FakeCallState {
    const char *name;
    FakeCompute compute;
    bool individual, repeatable, bound_to_addresses;
    int64_t runs;
    uint64_t workspace;
    FakeTensor *tensors;
    aclTensor *objects[MAX_TENSORS];
    bool written[MAX_TENSORS];
    int tensor_count;
    Holder inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    int input_count, output_count;
    FakeValue values[MAX_VALUES];
};

struct aclOpExecutor {
    FakeHandle handle;
    FakeCallState *call;
};

/* --- phase one ---------------------------------------------------------------------------------- */

FakeCallState *fakeBegin(const char *operator_name, FakeCompute compute, bool individual)
{
    FakeCallState *call = calloc(1, sizeof *call);
    call->name = operator_name;
    call->compute = compute;
    call->individual = individual;
    call->tensors = malloc(MAX_TENSORS * sizeof *call->tensors);
    return call;
}

static void addTensor(FakeCallState *call, const aclTensor *given, bool written)
{
    if (call->tensor_count == MAX_TENSORS) {
        fakeMisuse(call->name, "the double has no room for another tensor");
    }
    int index = call->tensor_count++;
    if (given == NULL) {
        call->tensors[index].rank = -1;
        return;
    }
    call->objects[index] = fakeUse(call->name, given, KIND_TENSOR);
    call->tensors[index] = *call->objects[index]->is;
    call->written[index] = written;
}

static Holder add(FakeCallState *call, const aclTensor *tensor, bool written)
{
    addTensor(call, tensor, written);
    return (Holder){tensor, call->tensor_count - 1, 1, false};
}

void fakeIn(FakeCallState *call, const aclTensor *tensor)
{
    call->inputs[call->input_count++] = add(call, tensor, false);
}

void fakeOut(FakeCallState *call, const aclTensor *tensor)
{
    call->outputs[call->output_count++] = add(call, tensor, true);
}

void fakeInOut(FakeCallState *call, const aclTensor *tensor)
{
    Holder holder = add(call, tensor, true);
    holder.in_place = true;
    call->inputs[call->input_count++] = holder;
    call->outputs[call->output_count++] = holder;
}

static Holder addList(FakeCallState *call, const aclTensorList *given, bool written)
{
    aclTensorList *list = fakeUse(call->name, given, KIND_TENSOR_LIST);
    Holder holder = {list, call->tensor_count, (int)list->size, false};
    for (uint64_t i = 0; i < list->size; i++) {
        addTensor(call, list->items[i], written);
    }
    return holder;
}

void fakeInList(FakeCallState *call, const aclTensorList *list)
{
    call->inputs[call->input_count++] = addList(call, list, false);
}

void fakeOutList(FakeCallState *call, const aclTensorList *list)
{
    call->outputs[call->output_count++] = addList(call, list, true);
}

FakeValue *fakeValues(FakeCallState *call) { return call->values; }

void fakeScratch(FakeCallState *call, int64_t bytes)
{
    call->workspace += (uint64_t)(bytes + 32 + 511) / 512 * 512;
}

static void freeCall(FakeCallState *call)
{
    free(call->tensors);
    free(call);
}

/* A view that is not contiguous is copied, which finds out where it reaches outside of its storage. */
static bool checkView(FakeCallState *call, int index)
{
    const FakeTensor *tensor = &call->tensors[index];
    if (tensor->rank < 0 || fakeElements(tensor) == 0 || fakeContiguous(tensor)) {
        return true;
    }
    int64_t low, high, room = 1;
    fakeReach(tensor, &low, &high);
    for (int i = 0; i < tensor->storage_rank; i++) {
        room *= tensor->storage[i];
    }
    fakeScratch(call, fakeElements(tensor) * (int64_t)fakeItemSize(tensor->dtype));
    call->bound_to_addresses |= call->written[index];
    return low >= 0 && high <= room;
}

aclnnStatus fakeFinish(FakeCallState *call, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    for (int i = 0; i < call->tensor_count; i++) {
        const FakeTensor *tensor = &call->tensors[i];
        if (!checkView(call, i)) {
            freeCall(call);
            return fakeError(ACLNN_ERR_INNER_NULLPTR, "tensor %d reaches outside of its storage", i);
        }
        if (tensor->rank >= 0 && tensor->data != NULL) {
            fakeCheckMemory(call->name, "tensor at phase one", tensor->data, 1, fakeDevice());
        }
    }
    for (int i = 0; i < call->tensor_count; i++) {
        if (call->objects[i] != NULL) {
            call->objects[i]->pins++;
        }
    }
    *executor = fakeNew(KIND_EXECUTOR, sizeof **executor);
    (*executor)->call = call;
    *workspaceSize = call->workspace;
    return OK;
}

/* --- phase two ---------------------------------------------------------------------------------- */

static void endExecutor(const char *function, aclOpExecutor *executor)
{
    FakeCallState *call = executor->call;
    fakeEnd(function, executor, KIND_EXECUTOR);
    for (int i = 0; i < call->tensor_count; i++) {
        if (call->objects[i] != NULL) {
            call->objects[i]->pins--;
        }
    }
    freeCall(call);
}

static int32_t runTask(void *data)
{
    FakeRun *run = data;
    if (run->workspace != NULL) {
        memset(run->workspace, 0x5A, run->workspace_size); /* a kernel may leave anything there */
    }
    return run->compute == NULL ? 0 : run->compute(run);
}

static void dropRun(void *data)
{
    free(((FakeRun *)data)->tensors);
    free(data);
}

static void useTensor(FakeTask *task, const FakeTensor *tensor, bool written)
{
    if (tensor->rank < 0 || fakeElements(tensor) == 0) {
        return;
    }
    if (tensor->data == NULL) {
        fakeMisuse(task->function, "a tensor that has elements has a null address");
    }
    int64_t low, high, size = (int64_t)fakeItemSize(tensor->dtype);
    fakeReach(tensor, &low, &high);
    const char *begin = tensor->data + low * size;
    fakeCheckMemory(task->function, "tensor at phase two", begin, (size_t)((high - low) * size), fakeDevice());
    fakeTaskUses(task, begin, (size_t)((high - low) * size), written);
}

static FakeTask *makeTask(const FakeCallState *call, void *workspace)
{
    FakeRun *run = calloc(1, sizeof *run);
    run->tensor_count = call->tensor_count;
    run->tensors = malloc(sizeof(FakeTensor) * (size_t)(call->tensor_count + 1));
    memcpy(run->tensors, call->tensors, sizeof(FakeTensor) * (size_t)call->tensor_count);
    memcpy(run->values, call->values, sizeof run->values);
    run->compute = call->compute;
    FakeTask *task = fakeTask(call->name, runTask, dropRun, run);
    for (int i = 0; i < call->tensor_count; i++) {
        useTensor(task, &call->tensors[i], call->written[i]);
    }
    if (call->workspace != 0) {
        fakeCheckMemory(call->name, "workspace", workspace, call->workspace, fakeDevice());
        fakeTaskUses(task, workspace, call->workspace, true);
        run->workspace = workspace;
        run->workspace_size = call->workspace;
    }
    return task;
}

aclnnStatus fakeExecute(const char *name, void *workspace, uint64_t workspaceSize, aclOpExecutor *given,
                        aclrtStream stream)
{
    int32_t asked = fakeCall(name, NEEDS_DEVICE);
    if (given == NULL) {
        return fakeError(ACLNN_ERR_PARAM_NULLPTR, "the executor is null");
    }
    aclOpExecutor *executor = fakeUse(name, given, KIND_EXECUTOR);
    FakeCallState *call = executor->call;
    if (strcmp(call->name, name) != 0) {
        fakeMisuse(name, "the executor was planned for %s", call->name);
    }
    if (executor->handle.device != fakeDevice()) {
        fakeMisuse(name, "the executor was planned on device %d", executor->handle.device);
    }
    if (asked == 0 && workspaceSize > 0 && workspace == NULL) {
        asked = fakeError(ACLNN_ERR_PARAM_NULLPTR, "the workspace is null");
    }
    if (asked == 0 && workspaceSize < call->workspace) {
        fakeMisuse(name, "workspace too small: %llu bytes, %llu were planned", (unsigned long long)workspaceSize,
                   (unsigned long long)call->workspace);
    }
    if (asked == 0 && (uintptr_t)workspace % 64 != 0) {
        fakeMisuse(name, "the workspace's address %p is not a multiple of 64", workspace);
    }
    if (asked == 0) {
        fakeQueue(makeTask(call, workspace), stream);
        call->runs++;
    }
    if (!call->repeatable) {
        endExecutor(name, executor);
    }
    return asked;
}

/* --- again, and the end ------------------------------------------------------------------------- */

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *given)
{
    FAKE_CALL(NEEDS_DEVICE);
    aclOpExecutor *executor = fakeUse(__func__, given, KIND_EXECUTOR);
    if (executor->call->bound_to_addresses) {
        return fakeError(ACLNN_ERR_INNER, "the plan has copies that cannot be repeated");
    }
    executor->call->repeatable = true;
    return OK;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *given)
{
    FAKE_CALL(NEEDS_DEVICE);
    if (given == NULL) {
        return fakeError(ACLNN_ERR_INNER_NULLPTR, "the executor is null");
    }
    endExecutor(__func__, fakeUse(__func__, given, KIND_EXECUTOR));
    return OK;
}

static aclnnStatus setAddress(const char *function, aclOpExecutor *given, bool output, size_t index, size_t element,
                              const void *object, void *addr)
{
    aclOpExecutor *executor = fakeUse(function, given, KIND_EXECUTOR);
    FakeCallState *call = executor->call;
    const Holder *holders = output ? call->outputs : call->inputs;
    size_t count = (size_t)(output ? call->output_count : call->input_count);
    if (!call->repeatable) {
        fakeMisuse(function, "the executor is not repeatable");
    }
    if (index >= count || holders[index].object != object || element >= (size_t)holders[index].count) {
        fakeMisuse(function, "index %zu, element %zu of the %s is not this tensor", index, element,
                   output ? "outputs" : "inputs");
    }
    if (holders[index].in_place && !call->individual) {
        fakeMisuse(function, "the address of a tensor that is updated in place cannot be set");
    }
    if ((uintptr_t)addr % 32 != 0) {
        fakeMisuse(function, "the address %p is not a multiple of 32", addr);
    }
    int position = holders[index].first + (int)element;
    call->tensors[position].data = addr;
    call->objects[position]->is->data = addr;
    return OK;
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    FAKE_CALL(NEEDS_DEVICE);
    return setAddress(__func__, executor, false, index, 0, fakeUse(__func__, tensor, KIND_TENSOR), addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    FAKE_CALL(NEEDS_DEVICE);
    return setAddress(__func__, executor, true, index, 0, fakeUse(__func__, tensor, KIND_TENSOR), addr);
}

aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                         aclTensorList *tensors, void *addr)
{
    FAKE_CALL(NEEDS_DEVICE);
    const void *list = fakeUse(__func__, tensors, KIND_TENSOR_LIST);
    return setAddress(__func__, executor, false, irIndex, relativeIndex, list, addr);
}

aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,
                                          aclTensorList *tensors, void *addr)
{
    FAKE_CALL(NEEDS_DEVICE);
    const void *list = fakeUse(__func__, tensors, KIND_TENSOR_LIST);
    return setAddress(__func__, executor, true, irIndex, relativeIndex, list, addr);
}
