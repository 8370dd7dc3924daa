/* In the form in which the build of the real ones writes its headers. */

#ifndef ACLNN_FOREACH_ADD_SCALAR_LIST_H_
#define ACLNN_FOREACH_ADD_SCALAR_LIST_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

__attribute__ ((visibility("default")))
aclnnStatus aclnnForeachAddScalarListGetWorkspaceSize(
    const aclTensorList *x,
    const aclScalarList *scalars,
    const aclTensorList *out,
    uint64_t *workspaceSize,
    aclOpExecutor **executor);

__attribute__ ((visibility("default")))
aclnnStatus aclnnForeachAddScalarList(
    void *workspace,
    uint64_t workspaceSize,
    aclOpExecutor *executor,
    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
