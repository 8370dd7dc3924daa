/* What every header of an operator includes: the types of its arguments, and the return codes of
 * the two phases. */
#ifndef ACLNN_SERVE_ACLNN_BASE_H
#define ACLNN_SERVE_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#define ACLNN_API ACL_FUNC_VISIBILITY

#ifdef __cplusplus
extern "C" {
#endif

/* Starts and ends what operators need, where aclInit and aclFinalize are not called. configPath may
 * be null. */
ACLNN_API aclnnStatus aclnnInit(const char* configPath);
ACLNN_API aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
