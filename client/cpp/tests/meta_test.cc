// Tensors, scalars, arrays, lists: what is copied, what is owned, what is refused. Needs no server.
#include <atomic>
#include <thread>
#include <vector>

#include "aclnn/acl_meta.h"
#include "expect.h"

namespace {

using Numbers = std::vector<int64_t>;

aclTensor* tensor_of(const Numbers& shape, void* data = nullptr) {
  return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                         shape.data(), shape.size(), data);
}

using Getter = aclnnStatus (*)(const aclTensor*, int64_t**, uint64_t*);

Numbers ask(Getter getter, const aclTensor* tensor) {
  int64_t* values = nullptr;
  uint64_t count = 99;
  EXPECT_EQ(getter(tensor, &values, &count), OK);
  const Numbers found(values, values + count);
  delete[] values;
  return found;
}

void what_is_given_is_copied() {
  Numbers shape{2, 3};
  Numbers strides{1, 2};
  Numbers storage{100};
  int place = 0;
  aclTensor* tensor = aclCreateTensor(shape.data(), 2, ACL_BF16, strides.data(), 7, ACL_FORMAT_NCL,
                                      storage.data(), 1, &place);
  shape = strides = storage = {0, 0};
  EXPECT(ask(aclGetViewShape, tensor) == Numbers({2, 3}));
  EXPECT(ask(aclGetViewStrides, tensor) == Numbers({1, 2}));
  EXPECT(ask(aclGetStorageShape, tensor) == Numbers({100}));
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  aclDataType type = ACL_DT_UNDEFINED;
  void* address = nullptr;
  EXPECT_EQ(aclGetViewOffset(tensor, &offset), OK);
  EXPECT_EQ(aclGetFormat(tensor, &format), OK);
  EXPECT_EQ(aclGetDataType(tensor, &type), OK);
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), OK);
  EXPECT_EQ(offset, 7);
  EXPECT_EQ(format, ACL_FORMAT_NCL);
  EXPECT_EQ(type, ACL_BF16);
  EXPECT_EQ(address, &place);
  EXPECT_EQ(aclSetRawTensorAddr(tensor, nullptr), OK);
  EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), OK);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

void strides_that_are_left_out_are_in_c_order() {
  aclTensor* tensor = tensor_of({2, 3, 4});
  EXPECT(ask(aclGetViewStrides, tensor) == Numbers({12, 4, 1}));
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
  tensor = tensor_of({});
  EXPECT(ask(aclGetViewShape, tensor).empty());
  EXPECT(ask(aclGetViewStrides, tensor).empty());
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

void a_tensor_is_made_anew() {
  aclTensor* tensor = tensor_of({2, 3});
  const Numbers shape{5};
  EXPECT_EQ(aclInitTensor(tensor, shape.data(), 1, ACL_INT8, nullptr, 1, ACL_FORMAT_ND,
                          shape.data(), 1, nullptr),
            OK);
  EXPECT(ask(aclGetViewShape, tensor) == Numbers({5}));
  EXPECT(ask(aclGetViewStrides, tensor) == Numbers({1}));
  EXPECT_EQ(
      aclInitTensor(tensor, nullptr, 0, ACL_INT16, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr),
      OK);
  EXPECT(ask(aclGetViewShape, tensor) == Numbers({5}));
  EXPECT(ask(aclGetStorageShape, tensor) == Numbers({5}));
  aclDataType type = ACL_DT_UNDEFINED;
  EXPECT_EQ(aclGetDataType(tensor, &type), OK);
  EXPECT_EQ(type, ACL_INT16);
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
  EXPECT_REFUSED(
      aclInitTensor(tensor, nullptr, 0, ACL_INT16, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr),
      161002, "no aclTensor");
}

void creation_refuses_what_is_missing() {
  const Numbers shape{2};
  EXPECT(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(), 1,
                         nullptr) == nullptr);
  EXPECT(aclCreateTensor(shape.data(), 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 1,
                         nullptr) == nullptr);
  EXPECT(aclCreateScalar(nullptr, ACL_FLOAT) == nullptr);
  float value = 1;
  EXPECT(aclCreateScalar(&value, ACL_STRING) == nullptr);
  EXPECT(aclnn::tests::contains(aclnn::tests::recent_text(), "aclCreateScalar: dataType is 13"));
  EXPECT(aclCreateScalar(&value, static_cast<aclDataType>(5)) == nullptr);
  EXPECT(aclCreateIntArray(nullptr, 1) == nullptr);
  EXPECT(aclCreateTensorList(nullptr, 2) == nullptr);
  // Lengths that no memory has.
  EXPECT(aclCreateTensor(shape.data(), UINT64_MAX / 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                         shape.data(), 1, nullptr) == nullptr);
  EXPECT(aclCreateIntArray(shape.data(), UINT64_MAX / 2) == nullptr);
}

void nothing_to_destroy_is_fine() {
  EXPECT_EQ(aclDestroyTensor(nullptr), OK);
  EXPECT_EQ(aclDestroyScalar(nullptr), OK);
  EXPECT_EQ(aclDestroyIntArray(nullptr), OK);
  EXPECT_EQ(aclDestroyFloatArray(nullptr), OK);
  EXPECT_EQ(aclDestroyBoolArray(nullptr), OK);
  EXPECT_EQ(aclDestroyTensorList(nullptr), OK);
  EXPECT_EQ(aclDestroyScalarList(nullptr), OK);
}

void arrays_know_their_sizes() {
  const bool flags[] = {true, false, true};
  const float numbers[] = {1.5f};
  aclBoolArray* bools = aclCreateBoolArray(flags, 3);
  aclFloatArray* floats = aclCreateFloatArray(numbers, 1);
  aclIntArray* none = aclCreateIntArray(nullptr, 0);
  uint64_t size = 99;
  EXPECT_EQ(aclGetBoolArraySize(bools, &size), OK);
  EXPECT_EQ(size, 3u);
  EXPECT_EQ(aclGetFloatArraySize(floats, &size), OK);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclGetIntArraySize(none, &size), OK);
  EXPECT_EQ(size, 0u);
  EXPECT_REFUSED(aclGetIntArraySize(nullptr, &size), 161001, "is null");
  EXPECT_REFUSED(aclGetIntArraySize(none, nullptr), 161001, "size is null");
  EXPECT_EQ(aclDestroyBoolArray(bools), OK);
  EXPECT_EQ(aclDestroyFloatArray(floats), OK);
  EXPECT_EQ(aclDestroyIntArray(none), OK);
}

void lists_own_their_elements() {
  aclTensor* one = tensor_of({1});
  aclTensor* two = tensor_of({2});
  const aclTensor* both[] = {one, two};
  aclTensorList* list = aclCreateTensorList(both, 2);
  both[0] = nullptr;  // the list has pointers of its own
  uint64_t size = 0;
  EXPECT_EQ(aclGetTensorListSize(list, &size), OK);
  EXPECT_EQ(size, 2u);
  EXPECT_EQ(aclDestroyTensorList(list), OK);
  EXPECT_REFUSED(aclDestroyTensor(one), 161002, "aclDestroyTensor");
  EXPECT_REFUSED(aclDestroyTensor(two), 161002, "was destroyed");
  EXPECT_REFUSED(aclDestroyTensorList(list), 161002, "no aclTensorList");

  float number = 1;
  const aclScalar* scalars[] = {aclCreateScalar(&number, ACL_FLOAT)};
  aclScalarList* others = aclCreateScalarList(scalars, 1);
  EXPECT_EQ(aclGetScalarListSize(others, &size), OK);
  EXPECT_EQ(size, 1u);
  EXPECT_EQ(aclDestroyScalarList(others), OK);
  EXPECT_REFUSED(aclDestroyScalar(scalars[0]), 161002, "no aclScalar");

  aclTensor* gone = tensor_of({1});
  const aclTensor* stale[] = {gone, nullptr};
  list = aclCreateTensorList(stale, 2);
  EXPECT_EQ(aclDestroyTensor(gone), OK);
  EXPECT_REFUSED(aclDestroyTensorList(list), 161002, "no aclTensor:");
}

void handles_of_another_kind_are_refused() {
  float number = 1;
  aclScalar* scalar = aclCreateScalar(&number, ACL_FLOAT);
  const auto* as_tensor = reinterpret_cast<const aclTensor*>(scalar);
  int64_t offset = 0;
  EXPECT_REFUSED(aclGetViewOffset(as_tensor, &offset), 161002, "no aclTensor");
  EXPECT_REFUSED(aclDestroyTensor(as_tensor), 161002, "no aclTensor");
  const auto* odd = reinterpret_cast<const aclTensor*>(reinterpret_cast<const char*>(scalar) + 1);
  EXPECT_REFUSED(aclDestroyTensor(odd), 161002, "no aclTensor");
  EXPECT_EQ(aclDestroyScalar(scalar), OK);
  EXPECT_REFUSED(aclGetViewOffset(nullptr, &offset), 161001, "tensor is null");
  EXPECT_REFUSED(aclSetRawTensorAddr(nullptr, &number), 561103, "tensor is null");
}

void a_handle_is_not_used_again_soon() {
  aclTensor* first = tensor_of({1});
  EXPECT_EQ(aclDestroyTensor(first), OK);
  for (int i = 0; i < 200; ++i) {
    aclTensor* other = tensor_of({i});
    EXPECT(other != first);
    EXPECT_EQ(aclDestroyTensor(other), OK);
  }
}

void executors_that_are_none() {
  int place = 0;
  auto* foreign = reinterpret_cast<aclOpExecutor*>(&place);
  EXPECT_REFUSED(aclSetAclOpExecutorRepeatable(nullptr), 561103, "executor is null");
  EXPECT_REFUSED(aclDestroyAclOpExecutor(nullptr), 561103, "executor is null");
  EXPECT_REFUSED(aclSetAclOpExecutorRepeatable(foreign), 161002, "no aclOpExecutor");
  EXPECT_REFUSED(aclDestroyAclOpExecutor(foreign), 161002, "no aclOpExecutor");
  aclTensor* tensor = tensor_of({1});
  EXPECT_REFUSED(aclSetInputTensorAddr(foreign, 0, tensor, &place), 161002, "no aclOpExecutor");
  EXPECT_REFUSED(aclSetInputTensorAddr(foreign, 0, nullptr, &place), 561103, "tensor is null");
  EXPECT_EQ(aclDestroyTensor(tensor), OK);
}

// Made in one thread and destroyed in another, as task queues do; and destroyed by two at once.
void threads_share_handles() {
  constexpr int kCount = 2000;
  std::vector<aclTensor*> made(kCount);
  std::thread maker([&] {
    for (aclTensor*& tensor : made) tensor = tensor_of({3, 4, 5});
  });
  maker.join();
  std::atomic<int> destroyed{0};
  const auto destroy = [&] {
    for (aclTensor* tensor : made) destroyed += aclDestroyTensor(tensor) == OK ? 1 : 0;
  };
  std::thread one(destroy);
  std::thread two(destroy);
  one.join();
  two.join();
  EXPECT_EQ(destroyed.load(), kCount);
}

}  // namespace

int main() {
  what_is_given_is_copied();
  strides_that_are_left_out_are_in_c_order();
  a_tensor_is_made_anew();
  creation_refuses_what_is_missing();
  nothing_to_destroy_is_fine();
  arrays_know_their_sizes();
  lists_own_their_elements();
  handles_of_another_kind_are_refused();
  a_handle_is_not_used_again_soon();
  executors_that_are_none();
  threads_share_handles();
  return aclnn::tests::failures;
}
