/* Scalars, arrays and lists. A list destroys its elements. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    if (fakeCall(__func__, NEEDS_NOTHING) != 0) {
        return NULL;
    }
    if (value == NULL) {
        fakeMisuse(__func__, "the value is null");
    }
    size_t size = fakeItemSize(dataType);
    if (size == 0) {
        fakeMisuse(__func__, "%d is no element type of scalars", (int)dataType);
    }
    aclScalar *scalar = fakeNew(KIND_SCALAR, sizeof *scalar);
    scalar->dtype = dataType;
    memcpy(scalar->bytes, value, size);
    return scalar;
}

aclnnStatus aclDestroyScalar(const aclScalar *given)
{
    FAKE_CALL(NEEDS_NOTHING);
    if (given == NULL) {
        return OK;
    }
    aclScalar *scalar = fakeEnd(__func__, given, KIND_SCALAR);
    if (scalar->in_list != NULL) {
        fakeMisuse(__func__, "the scalar belongs to a list, which destroys it");
    }
    return OK;
}

#define ARRAY(name, item, KIND)                                                  \
    acl##name##Array *aclCreate##name##Array(const item *value, uint64_t size)   \
    {                                                                            \
        if (fakeCall(__func__, NEEDS_NOTHING) != 0) {                            \
            return NULL;                                                         \
        }                                                                        \
        if (value == NULL) {                                                     \
            fakeMisuse(__func__, "the values are null");                         \
        }                                                                        \
        acl##name##Array *array = fakeNew(KIND, sizeof *array);                  \
        array->size = size;                                                      \
        array->items = malloc(size * sizeof(item) + 1);                          \
        memcpy(array->items, value, size * sizeof(item));                        \
        return array;                                                            \
    }                                                                            \
    aclnnStatus aclDestroy##name##Array(const acl##name##Array *given)           \
    {                                                                            \
        FAKE_CALL(NEEDS_NOTHING);                                                \
        if (given != NULL) {                                                     \
            free(((acl##name##Array *)fakeEnd(__func__, given, KIND))->items);   \
        }                                                                        \
        return OK;                                                               \
    }

ARRAY(Int, int64_t, KIND_INT_ARRAY)
ARRAY(Float, float, KIND_FLOAT_ARRAY)
ARRAY(Bool, bool, KIND_BOOL_ARRAY)

#define LIST(name, KIND, ELEMENT, end)                                                          \
    acl##name##List *aclCreate##name##List(const acl##name *const *value, uint64_t size)        \
    {                                                                                           \
        if (fakeCall(__func__, NEEDS_NOTHING) != 0) {                                           \
            return NULL;                                                                        \
        }                                                                                       \
        acl##name##List *list = fakeNew(KIND, sizeof *list);                                    \
        list->size = size;                                                                      \
        list->items = malloc(size * sizeof *list->items + 1);                                   \
        for (uint64_t i = 0; i < size; i++) {                                                   \
            list->items[i] = fakeUse(__func__, value[i], ELEMENT);                              \
            if (list->items[i]->in_list != NULL) {                                              \
                fakeMisuse(__func__, "element %d belongs to another list", (int)i);             \
            }                                                                                   \
            list->items[i]->in_list = list;                                                     \
        }                                                                                       \
        return list;                                                                            \
    }                                                                                           \
    aclnnStatus aclDestroy##name##List(const acl##name##List *given)                            \
    {                                                                                           \
        FAKE_CALL(NEEDS_NOTHING);                                                               \
        if (given != NULL) {                                                                    \
            acl##name##List *list = fakeEnd(__func__, given, KIND);                             \
            for (uint64_t i = 0; i < list->size; i++) {                                         \
                end(fakeEnd(__func__, list->items[i], ELEMENT));                                \
            }                                                                                   \
            free(list->items);                                                                  \
        }                                                                                       \
        return OK;                                                                              \
    }

static void endTensor(aclTensor *tensor)
{
    if (tensor->pins != 0) {
        fakeMisuse("aclDestroyTensorList", "an element belongs to an executor between its two phases");
    }
    free(tensor->is);
}

static void endScalar(aclScalar *scalar) { (void)scalar; }

LIST(Tensor, KIND_TENSOR_LIST, KIND_TENSOR, endTensor)
LIST(Scalar, KIND_SCALAR_LIST, KIND_SCALAR, endScalar)
