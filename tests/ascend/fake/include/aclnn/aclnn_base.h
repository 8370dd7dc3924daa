/* What every header of operators includes. */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

#define ACLNN_API __attribute__((visibility("default")))

#endif
