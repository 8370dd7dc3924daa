/* Operators of the double alone, which write down what they were given. */
#ifndef ACLNNOP_ACLNN_ECHO_H_
#define ACLNNOP_ACLNN_ECHO_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out gets a text, one line an argument, with a zero after it. Every pointer may be null. */
ACLNN_API aclnnStatus aclnnEchoGetWorkspaceSize(
    const aclTensor* tensorOptional, const aclTensorList* tensorsOptional, const aclScalar* scalarOptional,
    const aclScalarList* scalarsOptional, const aclIntArray* intsOptional, const aclFloatArray* floatsOptional,
    const aclBoolArray* boolsOptional, const char* textOptional, char* nameOptional, int64_t wide, int32_t word,
    int number, int8_t small, uint64_t natural, bool flag, double real, float single, aclDataType dtype,
    aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);

ACLNN_API aclnnStatus aclnnEcho(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                aclrtStream stream);

/* Needs as much workspace as it is told, writes all of it, and copies self to out. */
ACLNN_API aclnnStatus aclnnScratchGetWorkspaceSize(const aclTensor* self, int64_t workspace, aclTensor* out,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor);

ACLNN_API aclnnStatus aclnnScratch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
