/* Gives an operator an argument of every kind, with the values at the ends of their ranges, and
 * then as little as it takes; prints what the operator wrote down. */
#include <acl/acl.h>
#include <aclnnop/aclnn_every_kind.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 2000 };

static void require(int status, const char* call) {
  if (status != ACL_SUCCESS) {
    const char* text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", call, status, text == NULL ? "" : text);
    exit(1);
  }
}

#define REQUIRE(call) require(call, #call)

static void* memory;
static aclTensor* out;

static void print_result(void) {
  static char text[ROOM + 1];
  REQUIRE(aclrtSynchronizeStream(NULL));
  REQUIRE(aclrtMemcpy(text, ROOM, memory, ROOM, ACL_MEMCPY_DEVICE_TO_HOST));
  printf("%s", text);
}

static void run_with_everything(void) {
  const int64_t shape[] = {2, 3}, strides[] = {1, -2}, storage[] = {100}, none[] = {0, 5};
  aclTensor* tensor =
      aclCreateTensor(shape, 2, ACL_BF16, strides, 50, ACL_FORMAT_NCHW, storage, 1, memory);
  const aclTensor* elements[] = {
      aclCreateTensor(shape, 2, ACL_INT8, NULL, 0, ACL_FORMAT_ND, shape, 2, memory),
      aclCreateTensor(NULL, 0, ACL_DOUBLE, NULL, 1, ACL_FORMAT_NHWC, storage, 1, memory),
      aclCreateTensor(none, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, none, 2, NULL),
      aclCreateTensor(NULL, 0, ACL_COMPLEX64, NULL, 0, ACL_FORMAT_UNDEFINED, NULL, 0, memory)};
  aclTensorList* tensors = aclCreateTensorList(elements, 4);
  double number = -0.1;
  int64_t least = INT64_MIN;
  bool yes = true;
  uint16_t half = 0x3e00;
  double complex_number[] = {1.5, -2.5};
  aclScalar* scalar = aclCreateScalar(&number, ACL_DOUBLE);
  const aclScalar* several[] = {aclCreateScalar(&least, ACL_INT64), aclCreateScalar(&yes, ACL_BOOL),
                                aclCreateScalar(&half, ACL_FLOAT16),
                                aclCreateScalar(complex_number, ACL_COMPLEX128)};
  aclScalarList* scalars = aclCreateScalarList(several, 4);
  const int64_t integers_in[] = {0, -1, INT64_MAX, INT64_MIN, 127, 128};
  const float floats_in[] = {0.0f, -0.0f, 1.5f, INFINITY};
  const bool flags_in[] = {true, false, true};
  aclIntArray* integers = aclCreateIntArray(integers_in, 6);
  aclFloatArray* floats = aclCreateFloatArray(floats_in, 4);
  aclBoolArray* flags = aclCreateBoolArray(flags_in, 3);
  uint64_t size = 99;
  aclOpExecutor* executor = NULL;
  REQUIRE(aclnnEveryKindGetWorkspaceSize(tensor, tensors, scalar, scalars, integers, floats, flags,
                                         "mean \xc3\xbc", INT64_MIN, INT32_MIN, -128, UINT64_MAX,
                                         true, -0.0, 0.1f, ACL_BF16, out, &size, &executor));
  /* Nothing of it is looked at again. */
  REQUIRE(aclDestroyTensor(tensor));
  REQUIRE(aclDestroyTensorList(tensors));
  REQUIRE(aclDestroyScalar(scalar));
  REQUIRE(aclDestroyScalarList(scalars));
  REQUIRE(aclDestroyIntArray(integers));
  REQUIRE(aclDestroyFloatArray(floats));
  REQUIRE(aclDestroyBoolArray(flags));
  REQUIRE(aclnnEveryKind(NULL, size, executor, NULL));
  print_result();
}

static int run_with(const aclTensor* tensor, const char* text, aclDataType type) {
  uint64_t size = 99;
  aclOpExecutor* executor = NULL;
  const int code =
      aclnnEveryKindGetWorkspaceSize(tensor, NULL, NULL, NULL, NULL, NULL, NULL, text, 0, 0, 0, 0,
                                     false, 0, 0, type, out, &size, &executor);
  return code != 0 ? code : aclnnEveryKind(NULL, size, executor, NULL);
}

static void tell(int code) {
  const char* text = aclGetRecentErrMsg();
  printf("%d %s\n", code, text == NULL ? "" : text);
}

static void refusals(void) {
  const int64_t one[] = {1}, many[] = {1000};
  tell(run_with(NULL, "\xff", ACL_FLOAT));
  tell(run_with(NULL, "", (aclDataType)5));
  tell(run_with(NULL, "", ACL_DT_UNDEFINED));
  aclTensor* tensor = aclCreateTensor(one, 1, ACL_FLOAT, NULL, 0, (aclFormat)99, one, 1, memory);
  tell(run_with(tensor, "", ACL_FLOAT));
  REQUIRE(aclInitTensor(tensor, one, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, many, 1, memory));
  tell(run_with(tensor, "", ACL_FLOAT));
  REQUIRE(aclInitTensor(tensor, one, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, one, 1, NULL));
  tell(run_with(tensor, "", ACL_FLOAT));
  REQUIRE(aclDestroyTensor(tensor));
  tell(run_with(tensor, "", ACL_FLOAT));
}

int main(void) {
  const int64_t room[] = {ROOM};
  REQUIRE(aclInit(NULL));
  REQUIRE(aclrtSetDevice(0));
  REQUIRE(aclrtMalloc(&memory, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
  out = aclCreateTensor(room, 1, ACL_UINT8, NULL, 0, ACL_FORMAT_ND, room, 1, memory);
  run_with_everything();
  printf("---\n");
  REQUIRE(run_with(NULL, NULL, ACL_FLOAT));
  print_result();
  printf("---\n");
  refusals();
  REQUIRE(aclDestroyTensor(out));
  REQUIRE(aclrtFree(memory));
  REQUIRE(aclFinalize());
  return 0;
}
