/* Header of a custom operator package. An input stands behind the output. */
#ifndef ACLNN_CUSTOM_SCALE_H_
#define ACLNN_CUSTOM_SCALE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default")))
aclnnStatus aclnnCustomScaleGetWorkspaceSize(
    const aclTensor *x, const aclTensor *yOut, const aclTensor *scaleOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor);

__attribute__((visibility("default")))
aclnnStatus aclnnCustomScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
