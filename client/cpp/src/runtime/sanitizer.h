// Tells ThreadSanitizer of an order that it cannot see, because gRPC is not built with it: what was
// done before an operation was started has been done when the completion queue tells its end.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#define ACLNN_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define ACLNN_TSAN_RELEASE(address) __tsan_release(address)
#else
#define ACLNN_TSAN_ACQUIRE(address) static_cast<void>(address)
#define ACLNN_TSAN_RELEASE(address) static_cast<void>(address)
#endif
