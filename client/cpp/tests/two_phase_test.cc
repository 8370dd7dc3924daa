// The life of an executor, and what phase one and phase two take and refuse. The server is one of
// the tests', with two devices and operators that wait, fail and count; its address comes by
// ACLNN_SERVER.
//
// With the argument "caller" the workspace is the caller's, as ACLNN_WORKSPACE=caller has it.
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "aclnn/aclnn_serve.h"
#include "expect.h"

namespace {

constexpr aclnnServeParameter kPlusParameters[] = {{"self", ACLNN_SERVE_TENSOR, false},
                                                   {"other", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
constexpr aclnnServeOperator kPlus{"aclnnPlus", kPlusParameters, 3};

constexpr aclnnServeParameter kScratchParameters[] = {{"self", ACLNN_SERVE_TENSOR, false},
                                                      {"size", ACLNN_SERVE_INT64, false},
                                                      {"gate", ACLNN_SERVE_INT64, false},
                                                      {"out", ACLNN_SERVE_TENSOR, true}};
constexpr aclnnServeOperator kScratch{"aclnnScratch", kScratchParameters, 4};

constexpr aclnnServeParameter kFailParameters[] = {{"number", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
constexpr aclnnServeOperator kFail{"aclnnFail", kFailParameters, 2};

constexpr aclnnServeParameter kDigitParameters[] = {{"digit", ACLNN_SERVE_INT64, false},
                                                    {"selfRef", ACLNN_SERVE_TENSOR, true}};
constexpr aclnnServeOperator kDigit{"aclnnDigit", kDigitParameters, 2};

constexpr aclnnServeOperator kNothing{"aclnnNothing", kDigitParameters, 2};

aclnnServeArgument of(const aclTensor* tensor) {
  aclnnServeArgument argument{};
  argument.tensor = tensor;
  return argument;
}

aclnnServeArgument of(int64_t number) {
  aclnnServeArgument argument{};
  argument.int64Value = number;
  return argument;
}

// Numbers in device memory with a tensor over them.
class Numbers {
 public:
  explicit Numbers(std::vector<int64_t> values) : count_(values.size()) {
    EXPECT_EQ(aclrtMalloc(&memory_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_EQ(aclrtMemcpy(memory_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
    tensor_ = tensor_at(memory_, static_cast<int64_t>(count_));
  }
  ~Numbers() {
    destroy();
    EXPECT_EQ(aclrtFree(memory_), 0);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  static aclTensor* tensor_at(void* memory, int64_t count) {
    return aclCreateTensor(&count, 1, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, &count, 1, memory);
  }

  aclTensor* tensor() const { return tensor_; }
  void* memory() const { return memory_; }
  size_t bytes() const { return count_ * sizeof(int64_t); }

  void destroy() {
    if (tensor_ != nullptr) EXPECT_EQ(aclDestroyTensor(tensor_), 0);
    tensor_ = nullptr;
  }

  std::vector<int64_t> read() const {
    std::vector<int64_t> values(count_);
    EXPECT_EQ(aclrtMemcpy(values.data(), bytes(), memory_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST), 0);
    return values;
  }

 private:
  size_t count_;
  void* memory_ = nullptr;
  aclTensor* tensor_ = nullptr;
};

using Values = std::vector<int64_t>;

struct Planned {
  int code = 0;
  uint64_t size = 99;
  aclOpExecutor* executor = nullptr;
};

Planned plan(const aclnnServeOperator& op, std::vector<aclnnServeArgument> arguments) {
  Planned planned;
  planned.code =
      aclnnServeGetWorkspaceSize(&op, arguments.data(), &planned.size, &planned.executor);
  return planned;
}

Planned plan_plus(const aclTensor* self, int64_t other, const aclTensor* out) {
  return plan(kPlus, {of(self), of(other), of(out)});
}

int run(const aclnnServeOperator& op, aclOpExecutor* executor, aclrtStream stream = nullptr) {
  return aclnnServeExecute(&op, nullptr, 0, executor, stream);
}

void synchronize() { EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0); }

// --- one-shot executors ------------------------------------------------------------------------

void an_executor_is_run_once() {
  Numbers self({1, 2}), out({0, 0});
  const Planned planned = plan_plus(self.tensor(), 5, out.tensor());
  EXPECT_EQ(planned.code, 0);
  EXPECT_EQ(planned.size, 0u);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  synchronize();
  EXPECT(out.read() == Values({6, 7}));
  EXPECT_REFUSED(run(kPlus, planned.executor), 200005, "aclnnPlus: the executor was run");
  EXPECT_REFUSED(aclDestroyAclOpExecutor(planned.executor), 200005, "was run or destroyed before");
  EXPECT_REFUSED(aclSetAclOpExecutorRepeatable(planned.executor), 200005, "before");
}

void what_is_no_executor_is_refused() {
  Numbers out({0});
  int place = 0;
  EXPECT_REFUSED(run(kPlus, nullptr), 161001, "aclnnPlus: executor is null");
  EXPECT_REFUSED(run(kPlus, reinterpret_cast<aclOpExecutor*>(&place)), 161002, "no aclOpExecutor");
  const Planned digit = plan(kDigit, {of(1), of(out.tensor())});
  EXPECT_REFUSED(run(kPlus, digit.executor), 161002, "executor was planned for aclnnDigit");
  EXPECT_REFUSED(run(kDigit, digit.executor), 200005, "before");
}

void an_abandoned_executor_is_destroyed() {
  Numbers out({0});
  const Planned planned = plan(kDigit, {of(1), of(out.tensor())});
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), 0);
  EXPECT_REFUSED(run(kDigit, planned.executor), 200005, "before");
  EXPECT_REFUSED(aclDestroyAclOpExecutor(planned.executor), 200005, "before");
}

void phase_one_takes_a_snapshot() {
  Numbers self({1}), out({0}), elsewhere({0});
  const Planned planned = plan_plus(self.tensor(), 1, out.tensor());
  EXPECT_EQ(aclSetRawTensorAddr(out.tensor(), elsewhere.memory()), 0);
  self.destroy();
  out.destroy();
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  synchronize();
  EXPECT(out.read() == Values({2}));
  EXPECT(elsewhere.read() == Values({0}));
}

void the_phases_may_be_on_two_threads() {
  Numbers self({1}), out({0});
  const Planned planned = plan_plus(self.tensor(), 1, out.tensor());
  std::thread second([&] { EXPECT_EQ(run(kPlus, planned.executor), 0); });
  second.join();
  synchronize();
  EXPECT(out.read() == Values({2}));
}

void two_threads_run_one_executor() {
  for (int round = 0; round < 50; ++round) {
    Numbers number({0});
    const Planned planned = plan(kDigit, {of(7), of(number.tensor())});
    auto other = std::async(std::launch::async, [&] { return run(kDigit, planned.executor); });
    const int mine = run(kDigit, planned.executor);
    const int its = other.get();
    EXPECT_EQ(mine + its, 200005);
    synchronize();
    EXPECT(number.read() == Values({7}));
  }
}

void a_stream_keeps_order() {
  Numbers number({0});
  for (const int64_t digit : {1, 2, 3, 4}) {
    const Planned planned = plan(kDigit, {of(digit), of(number.tensor())});
    EXPECT_EQ(run(kDigit, planned.executor), 0);
  }
  synchronize();
  EXPECT(number.read() == Values({1234}));
}

// --- what phase one refuses --------------------------------------------------------------------

void places_for_the_answer_are_needed() {
  Numbers out({0});
  const aclnnServeArgument arguments[] = {of(1), of(out.tensor())};
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_REFUSED(aclnnServeGetWorkspaceSize(&kDigit, arguments, nullptr, &executor), 161001,
                 "aclnnDigit: workspaceSize is null");
  EXPECT_REFUSED(aclnnServeGetWorkspaceSize(&kDigit, arguments, &size, nullptr), 161001,
                 "aclnnDigit: executor is null");
}

void an_operator_that_there_is_not() {
  Numbers out({0});
  EXPECT_REFUSED(plan(kNothing, {of(1), of(out.tensor())}).code, 100024, "aclnnNothing");
}

void addresses_are_checked() {
  Numbers out({0, 0, 0, 0});
  int64_t on_host[4] = {};
  aclTensor* lost = Numbers::tensor_at(on_host, 4);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161002, "does not lie in device memory");
  EXPECT_EQ(aclSetRawTensorAddr(lost, nullptr), 0);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161001, "its data address is null");
  EXPECT_EQ(aclSetRawTensorAddr(lost, static_cast<char*>(out.memory()) + 1), 0);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161002, "32 bytes; 31 are left");
  EXPECT_EQ(aclSetRawTensorAddr(lost, static_cast<char*>(out.memory()) - 1), 0);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161002, "does not lie in device memory");
  void* freed = nullptr;
  EXPECT_EQ(aclrtMalloc(&freed, 1000, ACL_MEM_MALLOC_HUGE_FIRST), 0);
  EXPECT_EQ(aclrtFree(freed), 0);
  EXPECT_EQ(aclSetRawTensorAddr(lost, freed), 0);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161002, "does not lie in device memory");
  EXPECT_EQ(aclDestroyTensor(lost), 0);
  EXPECT_REFUSED(plan(kDigit, {of(1), of(lost)}).code, 161002, "selfRef is no aclTensor");
}

void addresses_have_arithmetic() {
  Numbers memory({10, 20, 30, 40});
  int64_t* start = static_cast<int64_t*>(memory.memory());
  aclTensor* second = Numbers::tensor_at(start + 1, 1);
  aclTensor* last_two = Numbers::tensor_at(start + 2, 2);
  const int64_t one = 1, four = 4;
  aclTensor* by_offset =
      aclCreateTensor(&one, 1, ACL_INT64, nullptr, 3, ACL_FORMAT_ND, &four, 1, start);
  EXPECT_EQ(run(kDigit, plan(kDigit, {of(1), of(second)}).executor), 0);
  EXPECT_EQ(run(kDigit, plan(kDigit, {of(2), of(last_two)}).executor), 0);
  EXPECT_EQ(run(kDigit, plan(kDigit, {of(3), of(by_offset)}).executor), 0);
  synchronize();
  EXPECT(memory.read() == Values({10, 201, 302, 4023}));
  for (aclTensor* tensor : {second, last_two, by_offset}) EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

void devices_are_not_mixed() {
  Numbers here({1});
  EXPECT_EQ(aclrtSetDevice(1), 0);
  {
    Numbers there({1});
    EXPECT_REFUSED(plan_plus(here.tensor(), 1, there.tensor()).code, 161002,
                   "out lies on another device than the tensors before it");
    const Planned planned = plan(kDigit, {of(5), of(there.tensor())});
    EXPECT_EQ(run(kDigit, planned.executor), 0);
    EXPECT_EQ(aclrtSynchronizeDevice(), 0);
    EXPECT(there.read() == Values({15}));
  }
  EXPECT_EQ(aclrtResetDevice(1), 0);
  EXPECT_EQ(aclrtSetDevice(0), 0);
}

void empty_tensors_need_no_memory() {
  const int64_t shape[] = {0, 3};
  aclTensor* empty =
      aclCreateTensor(shape, 2, ACL_INT64, nullptr, 0, ACL_FORMAT_ND, shape, 2, nullptr);
  const Planned planned = plan_plus(empty, 1, empty);
  EXPECT_EQ(planned.code, 0);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  synchronize();
  EXPECT_EQ(aclDestroyTensor(empty), 0);
}

// --- failures of the work ----------------------------------------------------------------------

void failures_are_told_when_the_stream_is_waited_for() {
  Numbers out({0});
  const Planned planned = plan(kFail, {of(3), of(out.tensor())});
  EXPECT_EQ(run(kFail, planned.executor), 0);
  EXPECT_REFUSED(aclrtSynchronizeStream(nullptr), 507015, "aclnnFail: failed with 3");
  synchronize();
}

// --- repeatable executors ----------------------------------------------------------------------

void a_repeatable_executor_is_run_again() {
  Numbers number({0});
  const Planned planned = plan(kDigit, {of(1), of(number.tensor())});
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(kDigit, planned.executor), 0);
  synchronize();
  EXPECT(number.read() == Values({111}));
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), 0);
  EXPECT_REFUSED(run(kDigit, planned.executor), 200005, "before");
}

void its_tensors_get_other_addresses() {
  Numbers self({1}), other({10}), out({0}), elsewhere({0});
  const Planned planned = plan_plus(self.tensor(), 1, out.tensor());
  EXPECT_REFUSED(aclSetInputTensorAddr(planned.executor, 0, self.tensor(), other.memory()), 561000,
                 "not repeatable");
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), 0);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  EXPECT_EQ(aclSetInputTensorAddr(planned.executor, 0, self.tensor(), other.memory()), 0);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  EXPECT_EQ(aclSetOutputTensorAddr(planned.executor, 0, out.tensor(), elsewhere.memory()), 0);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  synchronize();
  EXPECT(out.read() == Values({11}));
  EXPECT(elsewhere.read() == Values({11}));
  void* address = nullptr;
  EXPECT_EQ(aclGetRawTensorAddr(out.tensor(), &address), 0);
  EXPECT_EQ(address, elsewhere.memory());

  // Inputs first, outputs after them; a tensor that is not of phase one is told by its number.
  EXPECT_EQ(aclSetTensorAddr(planned.executor, 1, out.tensor(), out.memory()), 0);
  EXPECT_EQ(AclSetTensorAddr(planned.executor, 0, elsewhere.tensor(), self.memory()), 0);
  EXPECT_EQ(run(kPlus, planned.executor), 0);
  synchronize();
  EXPECT(out.read() == Values({2}));
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), 0);
}

void other_addresses_are_checked() {
  Numbers self({1, 2}), out({0, 0}), small({0});
  const Planned planned = plan_plus(self.tensor(), 1, out.tensor());
  EXPECT_EQ(aclSetAclOpExecutorRepeatable(planned.executor), 0);
  int64_t on_host[2] = {};
  const auto set = [&](size_t number, aclTensor* tensor, void* address) {
    return aclSetInputTensorAddr(planned.executor, number, tensor, address);
  };
  EXPECT_REFUSED(set(0, nullptr, self.memory()), 561103, "tensor is null");
  EXPECT_REFUSED(set(0, self.tensor(), nullptr), 161001, "addr is null");
  EXPECT_REFUSED(set(0, self.tensor(), on_host), 161002, "no device memory");
  EXPECT_REFUSED(set(0, self.tensor(), small.memory()), 161002, "self needs 16 bytes; 8 are left");
  EXPECT_REFUSED(set(4, small.tensor(), self.memory()), 161002, "no such tensor: index 4");
  EXPECT_EQ(aclDestroyAclOpExecutor(planned.executor), 0);
}

// --- workspace ---------------------------------------------------------------------------------

Planned plan_scratch(const Numbers& self, int64_t size, const Numbers& out) {
  return plan(kScratch, {of(self.tensor()), of(size), of(int64_t{0}), of(out.tensor())});
}

void the_server_lends_its_workspace() {
  Numbers self({8}), out({0});
  const Planned planned = plan_scratch(self, 1000, out);
  EXPECT_EQ(planned.size, 0u);
  EXPECT_EQ(run(kScratch, planned.executor), 0);
  synchronize();
  EXPECT(out.read() == Values({8}));
  EXPECT_REFUSED(
      aclnnServeExecute(&kScratch, nullptr, 10, plan_scratch(self, 1000, out).executor, nullptr),
      161001, "workspace is null with a workspaceSize of 10");
  // One that would not do is not used: nobody was told how large it has to be.
  Numbers small({0});
  EXPECT_EQ(aclnnServeExecute(&kScratch, small.memory(), 8, plan_scratch(self, 1000, out).executor,
                              nullptr),
            0);
  synchronize();
  EXPECT(small.read() == Values({0}));
}

void the_caller_brings_his_workspace() {
  Numbers self({8}), out({0});
  const Planned planned = plan_scratch(self, 1000, out);
  EXPECT_EQ(planned.size, 1000u);
  Numbers workspace(Values(125));
  EXPECT_EQ(aclnnServeExecute(&kScratch, workspace.memory(), 1000, planned.executor, nullptr), 0);
  synchronize();
  unsigned char mark[1000];
  EXPECT_EQ(aclrtMemcpy(mark, 1000, workspace.memory(), 1000, ACL_MEMCPY_DEVICE_TO_HOST), 0);
  EXPECT_EQ(static_cast<int>(mark[0]), 1000 % 199);
  EXPECT_EQ(static_cast<int>(mark[999]), 1000 % 199);

  const auto refused = [&](void* memory, uint64_t size) {
    aclOpExecutor* executor = plan_scratch(self, 1000, out).executor;
    const int code = aclnnServeExecute(&kScratch, memory, size, executor, nullptr);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 200005);  // it is gone on failure, too
    return code;
  };
  EXPECT_EQ(refused(nullptr, 1000), 161001);
  EXPECT_EQ(refused(nullptr, 0), 161002);
  EXPECT_EQ(refused(workspace.memory(), 999), 161002);
  EXPECT_EQ(refused(static_cast<char*>(workspace.memory()) + 1, 1000), 161002);
  EXPECT_EQ(refused(mark, 1000), 161002);
}

// --- the start of operators ----------------------------------------------------------------------

void operators_have_a_start_of_their_own() {
  EXPECT_EQ(aclnnInit(nullptr), 0);
  EXPECT_EQ(aclnnInit(nullptr), 0);
  EXPECT_EQ(aclnnFinalize(), 0);  // ACL was started by aclInit, and goes on
  Numbers number({0});
  EXPECT_EQ(run(kDigit, plan(kDigit, {of(4), of(number.tensor())}).executor), 0);
  synchronize();
  EXPECT(number.read() == Values({4}));
}

void without_a_workspace() {
  operators_have_a_start_of_their_own();
  an_executor_is_run_once();
  what_is_no_executor_is_refused();
  an_abandoned_executor_is_destroyed();
  phase_one_takes_a_snapshot();
  the_phases_may_be_on_two_threads();
  two_threads_run_one_executor();
  a_stream_keeps_order();
  places_for_the_answer_are_needed();
  an_operator_that_there_is_not();
  addresses_are_checked();
  addresses_have_arithmetic();
  devices_are_not_mixed();
  empty_tensors_need_no_memory();
  failures_are_told_when_the_stream_is_waited_for();
  a_repeatable_executor_is_run_again();
  its_tensors_get_other_addresses();
  other_addresses_are_checked();
  the_server_lends_its_workspace();
}

}  // namespace

int main(int count, char** arguments) {
  EXPECT_EQ(aclInit(nullptr), 0);
  EXPECT_EQ(aclrtSetDevice(0), 0);
  if (count > 1 && std::strcmp(arguments[1], "caller") == 0) {
    the_caller_brings_his_workspace();
  } else {
    without_a_workspace();
  }
  EXPECT_EQ(aclrtResetDevice(0), 0);
  EXPECT_EQ(aclFinalize(), 0);
  return aclnn::tests::failures;
}
