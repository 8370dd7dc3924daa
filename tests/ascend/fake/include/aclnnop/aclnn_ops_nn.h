#ifndef ACLNN_OPS_NN_H_
#define ACLNN_OPS_NN_H_

#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_relu.h"
#include "aclnnop/aclnn_smooth_l1_loss.h"
#include "aclnnop/aclnn_smooth_l1_loss_backward.h"
#include "aclnnop/aclnn_softmax.h"

#endif
