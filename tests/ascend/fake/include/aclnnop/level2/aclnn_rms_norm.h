/* In the form in which the build of the real ones writes its headers. */

#ifndef ACLNN_RMS_NORM_H_
#define ACLNN_RMS_NORM_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__ ((visibility("default")))
aclnnStatus aclnnRmsNormGetWorkspaceSize(
    const aclTensor *x,
    const aclTensor *gamma,
    double epsilon,
    const aclTensor *yOut,
    const aclTensor *rstdOut,
    uint64_t *workspaceSize,
    aclOpExecutor **executor);

__attribute__ ((visibility("default")))
aclnnStatus aclnnRmsNorm(
    void *workspace,
    uint64_t workspaceSize,
    aclOpExecutor *executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
