// Streams, events, contexts, threads; what failed earlier.
#include <atomic>
#include <thread>

#include "harness.h"

namespace {

using namespace aclnn::tests;
using Values = std::vector<int64_t>;

// So many numbers that the server does not run their work in the thread that takes its commands:
// with fewer, a gate would hold up everything.
Values many(int64_t value) { return Values(1 << 17, value); }

void work_is_in_the_order_of_its_stream() {
  Numbers number({0});
  OwnStream stream;
  for (int digit = 1; digit <= 9; ++digit) MUST(append(digit, number, stream.get()));
  MUST(aclrtSynchronizeStream(stream.get()));
  EXPECT(number.read() == Values{123456789});
}

// While one stream stands at a gate, another one's work and waits go on.
void a_stream_that_waits_holds_nobody_up() {
  Numbers source(many(1)), held(many(0)), other({5});
  OwnStream waiting, working;
  aclrtEvent event = nullptr;
  MUST(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  MUST(pass(source, 2, held, waiting.get()));
  MUST(aclrtRecordEvent(event, waiting.get()));
  ask_driver("await 2");
  EXPECT_REFUSED(aclrtSynchronizeStreamWithTimeout(waiting.get(), 1),
                 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "");
  EXPECT_REFUSED(aclrtSynchronizeStreamWithTimeout(waiting.get(), 30),
                 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "");
  EXPECT_REFUSED(aclrtSynchronizeDeviceWithTimeout(30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "");
  EXPECT_REFUSED(aclrtSynchronizeEventWithTimeout(event, 30), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "");
  aclrtStreamStatus stream_status = ACL_STREAM_STATUS_COMPLETE;
  aclrtEventRecordedStatus event_status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  MUST(aclrtStreamQuery(waiting.get(), &stream_status));
  MUST(aclrtQueryEventStatus(event, &event_status));
  EXPECT_EQ(stream_status, ACL_STREAM_STATUS_NOT_READY);
  EXPECT_EQ(event_status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  std::thread waiter([&] {
    MUST(aclrtSetDevice(0));
    MUST(aclrtSynchronizeStream(waiting.get()));
    MUST(aclrtResetDevice(0));
  });
  for (int i = 0; i < 20; ++i) {
    MUST(append(1, other, working.get()));
    MUST(aclrtSynchronizeStream(working.get()));
    MUST(plus(other, -other.read()[0], other, working.get()));
  }
  ask_driver("open 2");
  waiter.join();
  MUST(aclrtStreamQuery(waiting.get(), &stream_status));
  MUST(aclrtQueryEventStatus(event, &event_status));
  EXPECT_EQ(stream_status, ACL_STREAM_STATUS_COMPLETE);
  EXPECT_EQ(event_status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  EXPECT(held.read() == many(1));
  MUST(aclrtDestroyEvent(event));
}

void events_order_two_streams() {
  Numbers source(many(7)), between(many(0)), result(many(0));
  OwnStream first, second;
  aclrtEvent begin = nullptr, end = nullptr;
  MUST(aclrtCreateEventWithFlag(&begin, ACL_EVENT_TIME_LINE));
  MUST(aclrtCreateEvent(&end));
  MUST(aclrtRecordEvent(begin, first.get()));
  MUST(pass(source, 3, between, first.get()));
  MUST(aclrtRecordEvent(end, first.get()));
  MUST(aclrtStreamWaitEvent(second.get(), end));
  MUST(plus(between, 1, result, second.get()));  // 1, if it did not wait
  ask_driver("await 3");
  ask_driver("open 3");
  MUST(aclrtSynchronizeStream(second.get()));
  EXPECT(result.read() == many(8));
  float milliseconds = -1;
  MUST(aclrtEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds >= 0);
  MUST(aclrtResetEvent(end, first.get()));
  EXPECT_REFUSED(aclrtEventElapsedTime(&milliseconds, begin, end),
                 ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the end event was not recorded");
  MUST(aclrtDestroyEvent(begin));
  MUST(aclrtDestroyEvent(end));
  EXPECT_REFUSED(aclrtRecordEvent(begin, first.get()), ACL_ERROR_RT_INVALID_HANDLE,
                 "event is no event, or one that was destroyed");
}

void a_failure_is_told_by_the_next_wait_once() {
  Numbers number({0});
  OwnStream stream, other;
  EXPECT_EQ(fail_on_device(5, number, stream.get()), 0);
  EXPECT_EQ(fail_on_device(6, number, stream.get()), 0);
  MUST(append(1, number, stream.get()));  // a stream goes on
  MUST(aclrtSynchronizeStream(other.get()));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream.get()), ACL_ERROR_RT_AICORE_EXCEPTION,
                 "aclnnFail: failed with 5");
  MUST(aclrtSynchronizeStream(stream.get()));
  EXPECT(number.read() == Values{1});
  EXPECT_EQ(fail_on_device(7, number, nullptr), 0);
  EXPECT_REFUSED(aclrtSynchronizeDevice(), ACL_ERROR_RT_AICORE_EXCEPTION, "failed with 7");
}

void memory_that_was_freed_before_it_is_used_is_a_failure() {
  Numbers source({1}), out({0});
  OwnStream stream;
  static const aclnnServeParameter parameters[] = {{"self", ACLNN_SERVE_TENSOR, false},
                                                   {"other", ACLNN_SERVE_INT64, false},
                                                   {"out", ACLNN_SERVE_TENSOR, true}};
  static const aclnnServeOperator op{"aclnnPlus", parameters, 3};
  const std::vector<aclnnServeArgument> arguments = {
      tensor_argument(source.tensor()), number_argument(1), tensor_argument(out.tensor())};
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  MUST(aclnnServeGetWorkspaceSize(&op, arguments.data(), &size, &executor));
  source.free();
  EXPECT_EQ(aclnnServeExecute(&op, nullptr, size, executor, stream.get()), 0);
  EXPECT_REFUSED(aclrtSynchronizeStream(stream.get()), ACL_ERROR_RT_INVALID_HANDLE, "buffer");
  EXPECT(out.read() == Values{0});
}

void texts_are_a_threads_own() {
  EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  std::thread([] {
    EXPECT_EQ(aclGetRecentErrMsg(), static_cast<const char*>(nullptr));
    EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
  }).join();
  EXPECT_EQ(aclrtSynchronizeEvent(nullptr), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
  EXPECT_EQ(recent_text(), "event is no event, or one that was destroyed\ndevPtr is null");
  EXPECT_EQ(recent_text(), "");
}

void a_thread_has_a_device_of_its_own() {
  std::thread([] {
    int32_t device = 7;
    void* memory = nullptr;
    EXPECT_REFUSED(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    EXPECT_REFUSED(aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL,
                   "the thread has no context");
    EXPECT_REFUSED(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID,
                   "deviceId is 2; the server has 2, counted from 0");
    EXPECT_REFUSED(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID, "deviceId is -1");
    MUST(aclrtSetDevice(1));
    MUST(aclrtGetDevice(&device));
    EXPECT_EQ(device, 1);
    MUST(aclrtResetDevice(1));
    EXPECT_REFUSED(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    EXPECT_REFUSED(aclrtResetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID, "a device that is not set");
  }).join();
}

void two_devices_work_together() {
  uint32_t count = 0;
  MUST(aclrtGetDeviceCount(&count));
  EXPECT_EQ(count, 2U);
  Numbers first({1, 2, 3});
  OwnStream stream;
  MUST(aclrtSetDevice(1));
  {
    Numbers second({0, 0, 0});
    MUST(aclrtMemcpy(second.memory(), 24, first.memory(), 24, ACL_MEMCPY_DEVICE_TO_DEVICE));
    MUST(plus(second, 10, second, nullptr));
    EXPECT(second.read() == Values({11, 12, 13}));
    EXPECT_REFUSED(plus(second, 1, second, stream.get()), ACL_ERROR_RT_STREAM_CONTEXT,
                   "the stream belongs to another device");
    aclrtEvent event = nullptr;
    MUST(aclrtCreateEvent(&event));
    MUST(aclrtRecordEvent(event, nullptr));
    MUST(aclrtStreamWaitEvent(stream.get(), event));
    MUST(aclrtMemcpyAsync(first.memory(), 24, second.memory(), 24, ACL_MEMCPY_DEVICE_TO_DEVICE,
                          nullptr));
    MUST(aclrtDestroyEvent(event));
  }
  MUST(aclrtResetDevice(1));
  MUST(aclrtSetDevice(0));
  MUST(aclrtResetDevice(0));  // once for each aclrtSetDevice
  MUST(aclrtSetDevice(0));
  MUST(aclrtResetDevice(0));
  EXPECT(first.read() == Values({11, 12, 13}));
}

void contexts_have_default_streams_of_their_own() {
  aclrtContext own = nullptr, made = nullptr, now = nullptr;
  MUST(aclrtGetCurrentContext(&own));
  MUST(aclrtCreateContext(&made, 0));
  MUST(aclrtGetCurrentContext(&now));
  EXPECT_EQ(now, made);
  Numbers source(many(4)), held(many(0)), other({0});
  MUST(pass(source, 4, held, nullptr));
  ask_driver("await 4");
  MUST(aclrtSetCurrentContext(own));
  MUST(append(3, other, nullptr));
  MUST(aclrtSynchronizeStream(nullptr));  // not the other context's
  EXPECT(other.read() == Values{3});
  ask_driver("open 4");
  MUST(aclrtSetCurrentContext(made));
  MUST(aclrtSynchronizeStream(nullptr));
  EXPECT(held.read() == many(4));
  MUST(aclrtSetCurrentContext(own));
  MUST(aclrtDestroyContext(made));
  EXPECT_REFUSED(aclrtSetCurrentContext(made), ACL_ERROR_RT_CONTEXT_NULL, "destroyed");
  EXPECT_REFUSED(aclrtDestroyContext(own), ACL_ERROR_RT_PARAM_INVALID, "aclrtResetDevice ends it");
}

void handles_that_are_none_are_refused() {
  aclrtStream stream = nullptr;
  MUST(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  uint32_t priority = 0, flags = 0;
  MUST(aclrtStreamGetPriority(stream, &priority));
  MUST(aclrtStreamGetFlags(stream, &flags));
  EXPECT_EQ(priority, 3U);
  EXPECT_EQ(flags, 3U);
  MUST(aclrtDestroyStreamForce(stream));
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  EXPECT_REFUSED(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE, "destroyed");
  EXPECT_REFUSED(aclrtDestroyStream(nullptr), ACL_ERROR_RT_INVALID_HANDLE, "the default stream");
  EXPECT_REFUSED(aclrtSynchronizeStream(&stream), ACL_ERROR_RT_INVALID_HANDLE, "no stream");
  EXPECT_REFUSED(aclrtCreateStreamWithConfig(&stream, 0, 64), ACL_ERROR_INVALID_PARAM,
                 "flag is 64");
}

// More work than the server holds at once is held up on its side, not refused.
void more_work_than_a_stream_holds_is_no_failure() {
  Numbers source(many(1)), held(many(0)), number({0});
  OwnStream stream;
  MUST(pass(source, 5, held, stream.get()));
  ask_driver("await 5");
  ask_driver("open soon 5");
  for (int i = 0; i < 1000; ++i) MUST(plus(number, 1, number, stream.get()));
  MUST(aclrtSynchronizeStream(stream.get()));
  EXPECT(number.read() == Values{1000});
}

void threads_with_streams_of_their_own() {
  constexpr int kThreads = 64;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&right, i] {
      MUST(aclrtSetDevice(0));
      {
        OwnStream stream;
        Numbers number({i});
        for (int call = 0; call < 10; ++call) {
          MUST(plus(number, i, number, stream.get()));
          if (call % 4 == i % 4) MUST(aclrtSynchronizeStream(stream.get()));
        }
        MUST(aclrtSynchronizeStream(stream.get()));
        right += number.read() == Values{11 * i} ? 1 : 0;
      }
      MUST(aclrtResetDevice(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), kThreads);
}

}  // namespace

int main(int argc, char** argv) {
  return run_device_tests(
      {{"work_is_in_the_order_of_its_stream", work_is_in_the_order_of_its_stream},
       {"a_stream_that_waits_holds_nobody_up", a_stream_that_waits_holds_nobody_up},
       {"events_order_two_streams", events_order_two_streams},
       {"a_failure_is_told_by_the_next_wait_once", a_failure_is_told_by_the_next_wait_once},
       {"memory_that_was_freed_before_it_is_used_is_a_failure",
        memory_that_was_freed_before_it_is_used_is_a_failure},
       {"texts_are_a_threads_own", texts_are_a_threads_own},
       {"a_thread_has_a_device_of_its_own", a_thread_has_a_device_of_its_own},
       {"two_devices_work_together", two_devices_work_together},
       {"contexts_have_default_streams_of_their_own", contexts_have_default_streams_of_their_own},
       {"handles_that_are_none_are_refused", handles_that_are_none_are_refused},
       {"more_work_than_a_stream_holds_is_no_failure", more_work_than_a_stream_holds_is_no_failure},
       {"threads_with_streams_of_their_own", threads_with_streams_of_their_own}},
      argc, argv);
}
