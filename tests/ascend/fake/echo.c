/* An operator that writes down its arguments, and one that needs as much workspace as it is told. */
#include "aclnnop/aclnn_echo.h"
#include "checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char text[8192];
    size_t length;
} Note;

static void note(Note *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(Note *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    to->length += (size_t)vsnprintf(to->text + to->length, sizeof to->text - to->length, format, arguments);
    va_end(arguments);
    if (to->length >= sizeof to->text) {
        fakeMisuse("aclnnEcho", "too much to write down");
    }
}

static void noteNumbers(Note *to, const int64_t *numbers, int count)
{
    note(to, "[");
    for (int i = 0; i < count; i++) {
        note(to, i == 0 ? "%lld" : " %lld", (long long)numbers[i]);
    }
    note(to, "]");
}

static void noteTensor(Note *to, const aclTensor *tensor)
{
    const FakeTensor *is = fakeTensor("aclnnEcho", tensor);
    note(to, "type %d shape ", (int)is->dtype);
    noteNumbers(to, is->shape, is->rank);
    note(to, " strides ");
    noteNumbers(to, is->strides, is->rank);
    note(to, " offset %lld format %d storage ", (long long)is->offset, (int)is->format);
    noteNumbers(to, is->storage, is->storage_rank);
}

static void noteScalar(Note *to, const aclScalar *given)
{
    const aclScalar *scalar = fakeUse("aclnnEcho", given, KIND_SCALAR);
    note(to, "type %d bytes ", (int)scalar->dtype);
    for (size_t i = 0; i < fakeItemSize(scalar->dtype); i++) {
        note(to, "%02x", scalar->bytes[i]);
    }
}

#define NULLABLE(pointer, ...)                    \
    note(to, "%s: ", #pointer);                   \
    if ((pointer) == NULL) {                      \
        note(to, "null");                         \
    } else {                                      \
        __VA_ARGS__                               \
    }                                             \
    note(to, "\n");

static int32_t computeEcho(FakeRun *run)
{
    const FakeTensor *out = &run->tensors[run->tensor_count - 1];
    const Note *written = run->values[0].pointer;
    memcpy(out->data, written->text, written->length + 1);
    return 0;
}

aclnnStatus aclnnEchoGetWorkspaceSize(
    const aclTensor *tensorOptional, const aclTensorList *tensorsOptional, const aclScalar *scalarOptional,
    const aclScalarList *scalarsOptional, const aclIntArray *intsOptional, const aclFloatArray *floatsOptional,
    const aclBoolArray *boolsOptional, const char *textOptional, char *nameOptional, int64_t wide, int32_t word,
    int number, int8_t small, uint64_t natural, bool flag, double real, float single, aclDataType dtype,
    aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(out)
    Note *to = calloc(1, sizeof *to);
    NULLABLE(tensorOptional, noteTensor(to, tensorOptional);)
    NULLABLE(tensorsOptional, fakeUse(__func__, tensorsOptional, KIND_TENSOR_LIST);
             for (uint64_t i = 0; i < tensorsOptional->size; i++) {
                 note(to, i == 0 ? "" : ", ");
                 noteTensor(to, tensorsOptional->items[i]);
             })
    NULLABLE(scalarOptional, noteScalar(to, scalarOptional);)
    NULLABLE(scalarsOptional, fakeUse(__func__, scalarsOptional, KIND_SCALAR_LIST);
             for (uint64_t i = 0; i < scalarsOptional->size; i++) {
                 note(to, i == 0 ? "" : ", ");
                 noteScalar(to, scalarsOptional->items[i]);
             })
    NULLABLE(intsOptional, fakeUse(__func__, intsOptional, KIND_INT_ARRAY);
             noteNumbers(to, intsOptional->items, (int)intsOptional->size);)
    NULLABLE(floatsOptional, fakeUse(__func__, floatsOptional, KIND_FLOAT_ARRAY);
             for (uint64_t i = 0; i < floatsOptional->size; i++) { note(to, " %a", (double)floatsOptional->items[i]); })
    NULLABLE(boolsOptional, fakeUse(__func__, boolsOptional, KIND_BOOL_ARRAY);
             for (uint64_t i = 0; i < boolsOptional->size; i++) { note(to, " %d", boolsOptional->items[i]); })
    NULLABLE(textOptional, note(to, "\"%s\"", textOptional);)
    NULLABLE(nameOptional, note(to, "\"%s\"", nameOptional);)
    note(to, "wide: %lld\nword: %d\nnumber: %d\nsmall: %d\nnatural: %llu\nflag: %d\n", (long long)wide, word, number,
         small, (unsigned long long)natural, flag);
    note(to, "real: %a\nsingle: %a\ndtype: %d\n", real, (double)single, (int)dtype);
    const FakeTensor *is = fakeTensor(__func__, out);
    CHECK(is->dtype == ACL_UINT8 && fakeContiguous(is) && is->offset == 0 && fakeElements(is) > (int64_t)to->length,
          "out has no room for %zu bytes", to->length + 1)
    FakeCallState *call = fakeBegin("aclnnEcho", computeEcho, false);
    fakeIn(call, tensorOptional);
    if (tensorsOptional != NULL) {
        fakeInList(call, tensorsOptional);
    }
    fakeOut(call, out);
    fakeValues(call)[0].pointer = to;
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnEcho)

/* --- workspace ---------------------------------------------------------------------------------- */

static int32_t computeScratch(FakeRun *run)
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

aclnnStatus aclnnScratchGetWorkspaceSize(const aclTensor *self, int64_t workspace, aclTensor *out,
                                         uint64_t *workspaceSize, aclOpExecutor **executor)
{
    FAKE_PHASE_ONE
    NOT_NULL(self)
    NOT_NULL(out)
    FakeTensor *from = fakeTensor(__func__, self), *to = fakeTensor(__func__, out);
    CHECK(fakeSameShape(from, to->rank, to->shape), "self and out have different shapes")
    CHECK(workspace >= 0, "workspace is %lld", (long long)workspace)
    FakeCallState *call = fakeBegin("aclnnScratch", computeScratch, false);
    fakeIn(call, self);
    fakeOut(call, out);
    if (workspace > 0) {
        fakeScratch(call, workspace);
    }
    return fakeFinish(call, workspaceSize, executor);
}

FAKE_PHASE_TWO(aclnnScratch)
