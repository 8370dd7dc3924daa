#ifndef ACLNNOP_ACLNN_SMOOTH_L1_LOSS_BACKWARD_H_
#define ACLNNOP_ACLNN_SMOOTH_L1_LOSS_BACKWARD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief First phase of aclnnSmoothL1LossBackward: sizes the workspace.
 * @domain aclnn_ops_train
 *
 * An older form was: aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(const aclTensor* self, double beta);
 * @param [in] beta: a threshold; the comment of the real header calls it a double, and the declaration does not.
 */
ACLNN_API aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(
    const aclTensor* gradOut, const aclTensor* self, const aclTensor* target, int64_t reduction, float beta,
    aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor);

/**
 * @brief Second phase of aclnnSmoothL1LossBackward; runs the plan.
 */
ACLNN_API aclnnStatus aclnnSmoothL1LossBackward(
    void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif // ACLNNOP_ACLNN_SMOOTH_L1_LOSS_BACKWARD_H_
