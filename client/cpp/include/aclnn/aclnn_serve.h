/* Calls operators by their description: what this library's own functions are made of, and what a
 * program or a generated source uses for operators that only its server knows (`aclnn-serve
 * headers` writes them).
 *
 * Not of the vendor's: a program that uses this runs with aclnn-serve only.
 */
#ifndef ACLNN_SERVE_ACLNN_SERVE_H
#define ACLNN_SERVE_ACLNN_SERVE_H

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a parameter is, by its C type. */
typedef enum {
  ACLNN_SERVE_TENSOR = 0,
  ACLNN_SERVE_TENSOR_LIST = 1,
  ACLNN_SERVE_SCALAR = 2,
  ACLNN_SERVE_SCALAR_LIST = 3,
  ACLNN_SERVE_INT_ARRAY = 4,
  ACLNN_SERVE_FLOAT_ARRAY = 5,
  ACLNN_SERVE_BOOL_ARRAY = 6,
  ACLNN_SERVE_TEXT = 7,
  ACLNN_SERVE_INT64 = 8,
  ACLNN_SERVE_INT32 = 9,
  ACLNN_SERVE_INT8 = 10,
  ACLNN_SERVE_UINT64 = 11,
  ACLNN_SERVE_BOOL = 12,
  ACLNN_SERVE_DOUBLE = 13,
  ACLNN_SERVE_FLOAT = 14,
  ACLNN_SERVE_DATA_TYPE = 15
} aclnnServeKind;

/* An output that is given as large as it may become: by the end of the next synchronisation the
 * aclTensor has the shape that its elements tell. */
#define ACLNN_SERVE_SHAPED 2

/* One parameter of phase one, without the trailing workspaceSize and executor. */
typedef struct {
  const char* name;
  aclnnServeKind kind;
  uint8_t output; /* whether the operator writes to it: false, true, or ACLNN_SERVE_SHAPED */
} aclnnServeParameter;

/* An operator. It and what it points to must live as long as its executors. */
typedef struct {
  const char* name; /* in C, with the aclnn prefix */
  const aclnnServeParameter* parameters;
  uint64_t parameterNum;
} aclnnServeOperator;

/* The value of a parameter, in the member that its kind names. */
typedef union {
  const aclTensor* tensor;
  const aclTensorList* tensorList;
  const aclScalar* scalar;
  const aclScalarList* scalarList;
  const aclIntArray* intArray;
  const aclFloatArray* floatArray;
  const aclBoolArray* boolArray;
  const char* text;
  int64_t int64Value;
  int32_t int32Value;
  int8_t int8Value;
  uint64_t uint64Value;
  bool boolValue;
  double doubleValue;
  float floatValue;
  aclDataType dataType;
} aclnnServeArgument;

/* Phase one: the server validates the call and plans it. arguments: one for each parameter. What is
 * given here may be destroyed before phase two; the device memory may not. */
ACLNN_API aclnnStatus aclnnServeGetWorkspaceSize(const aclnnServeOperator* op,
                                                 const aclnnServeArgument* arguments,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor);

/* Phase two: queues the planned call on a stream, without waiting. */
ACLNN_API aclnnStatus aclnnServeExecute(const aclnnServeOperator* op, void* workspace,
                                        uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
