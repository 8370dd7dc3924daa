// Memory of the device and of the host, copies.
#include <algorithm>
#include <cstring>
#include <string>

#include "aclnn_fields.h"
#include "runtime/address_map.h"
#include "runtime/api.h"
#include "runtime/host_memory.h"
#include "runtime/session_state.h"
#include "runtime/transfer.h"
#include "wire/decode.h"

namespace aclnn::runtime {
namespace {

constexpr int kParameterInvalid = 161002;  // of aclnn, and of the server for its own requests

Error allocate(void** address, size_t bytes) {
  if (address == nullptr) return null_pointer("devPtr");
  if (bytes == 0) return invalid("size", "0", "it must be above 0");
  std::shared_ptr<Context> context;
  if (Error error = current(&context)) return error;
  Session& session = *context->session;
  const uint64_t buffer_id = session.next_id();
  std::string request;
  wire::put_varint(request, fields::MallocRequest::kBufferId, buffer_id);
  wire::put_varint(request, fields::MallocRequest::kBytes, bytes);
  if (Error error = session.ask(fields::Command::kMalloc, request)) {
    // More than any buffer may have is no room either, as programs see it.
    if (error.code == kParameterInvalid) error.code = ACL_ERROR_RT_MEMORY_ALLOCATION;
    return error;
  }
  *address = reserve_addresses(&session, buffer_id, bytes);
  if (*address != nullptr) return {};
  request.clear();
  wire::put_varint(request, fields::FreeRequest::kBufferId, buffer_id);
  session.post(fields::Command::kFree, request);
  return {ACL_ERROR_RT_MEMORY_ALLOCATION,
          "this process has no " + std::to_string(bytes) + " addresses left"};
}

Error release(void* address) {
  if (address == nullptr) return null_pointer("devPtr");
  Place place;
  if (!release_addresses(address, &place)) {
    return {ACL_ERROR_RT_PARAM_INVALID, "devPtr is not the begin of an allocation"};
  }
  std::string request;
  wire::put_varint(request, fields::FreeRequest::kBufferId, place.buffer_id);
  return place.session->post(fields::Command::kFree, request);
}

Error allocate_on_host(void** address, size_t bytes) {
  if (address == nullptr) return null_pointer("hostPtr");
  if (bytes == 0) return invalid("size", "0", "it must be above 0");
  *address = allocate_host(bytes);
  if (*address != nullptr) return {};
  return {ACL_ERROR_RT_MEMORY_ALLOCATION,
          "the host has no " + std::to_string(bytes) + " bytes left"};
}

// What the context holds, as far as the server's quota for it goes.
Error quota(Session& session, uint64_t* free, uint64_t* total) {
  std::string response;
  if (Error error = session.ask(fields::Command::kRenewContext, "", &response)) {
    return error;
  }
  uint64_t used = 0;
  wire::Reader reader(response);
  for (wire::Field field; reader.next(&field);) {
    if (field.number != fields::RenewContextResponse::kUsage) continue;
    wire::Reader usage(field.bytes);
    for (wire::Field one; usage.next(&one);) {
      if (one.number == fields::Usage::kBytes) used = one.value;
    }
  }
  *total = session.limits.context_bytes;
  *free = *total - std::min(*total, used);
  return {};
}

Error memory_info(size_t* free, size_t* total) {
  std::shared_ptr<Context> context;
  if (Error error = current(&context)) return error;
  Session& session = *context->session;
  uint64_t quota_free = 0, quota_total = 0, device_free = 0, device_total = 0;
  if (Error error = quota(session, &quota_free, &quota_total)) return error;
  if (Error error = device_memory(session, &device_free, &device_total)) {
    return error;
  }
  const bool limited = quota_total != 0 && (device_total == 0 || quota_total < device_total);
  *total = limited ? quota_total : device_total;
  *free =
      limited ? (device_total == 0 ? quota_free : std::min(quota_free, device_free)) : device_free;
  return {};
}

// --- copies ------------------------------------------------------------------

// Where the two ends of a copy lie.
struct Ends {
  bool to_device = false;
  bool from_device = false;
  Place to;
  Place from;
};

Error check_room(const char* name, const Place& place, uint64_t bytes) {
  if (bytes <= place.bytes_left) return {};
  return {ACL_ERROR_RT_PARAM_INVALID,
          std::string(name) + " has " + std::to_string(place.bytes_left) +
              " bytes to the end of its allocation; the copy has " + std::to_string(bytes)};
}

// The pointers decide; a kind that names a device where the pointer is none is refused, since the
// host would read or write through whatever it is.
Error find_ends(void* dst, const void* src, uint64_t bytes_to, uint64_t bytes_from,
                aclrtMemcpyKind kind, Ends* ends) {
  if (dst == nullptr) return null_pointer("dst");
  if (src == nullptr) return null_pointer("src");
  ends->to_device = find_place(dst, &ends->to);
  ends->from_device = find_place(src, &ends->from);
  const bool to = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ||
                  kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                  kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE ||
                  kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE;
  const bool from =
      kind == ACL_MEMCPY_DEVICE_TO_HOST ||
      (to && kind >= ACL_MEMCPY_DEVICE_TO_DEVICE && kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) {
    return invalid("kind", std::to_string(kind), "kinds are 0 to 7");
  }
  if (to && !ends->to_device) {
    return {ACL_ERROR_RT_PARAM_INVALID, "dst is no address of device memory"};
  }
  if (from && !ends->from_device) {
    return {ACL_ERROR_RT_PARAM_INVALID, "src is no address of device memory"};
  }
  if (ends->to_device) {
    if (Error error = check_room("dst", ends->to, bytes_to)) return error;
  }
  if (ends->from_device) {
    if (Error error = check_room("src", ends->from, bytes_from)) return error;
  }
  return {};
}

Error copy_between(const Ends& ends, void* dst, const void* src, uint64_t bytes, Stream* stream) {
  if (bytes == 0) return {};
  if (ends.to_device && ends.from_device) {
    return copy_on_device(ends.to, ends.from, bytes, stream);
  }
  if (ends.to_device) {
    return copy_to_device(ends.to, static_cast<const char*>(src), bytes, stream);
  }
  if (ends.from_device) {
    return copy_from_device(static_cast<char*>(dst), ends.from, bytes, stream);
  }
  std::memmove(dst, src, bytes);
  return {};
}

Error copy(void* dst, size_t room, const void* src, size_t count, aclrtMemcpyKind kind,
           Stream* stream) {
  if (count > room) {
    return invalid("count", std::to_string(count),
                   "dst has room for " + std::to_string(room) + " (destMax)");
  }
  Ends ends;
  if (Error error = find_ends(dst, src, count, count, kind, &ends)) return error;
  if (stream != nullptr && !ends.to_device && !ends.from_device) {
    return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "both pointers are the host's; a stream copies from or to a device"};
  }
  if (ends.from_device && stream == nullptr) {
    // The call that tells its text best: what failed before may be what is read.
    if (Error first = ends.from.session->failures()->take()) return as_runtime_failure(first);
  }
  return copy_between(ends, dst, src, count, stream);
}

uint64_t span(size_t pitch, size_t width, size_t height) {
  return height == 0 ? 0 : pitch * (height - 1) + width;
}

Error copy_rows(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                size_t height, aclrtMemcpyKind kind, Stream* stream) {
  if (width > dpitch) return invalid("width", std::to_string(width), "dpitch is less");
  if (width > spitch) return invalid("width", std::to_string(width), "spitch is less");
  Ends ends;
  if (Error error = find_ends(dst, src, span(dpitch, width, height), span(spitch, width, height),
                              kind, &ends)) {
    return error;
  }
  if (width == dpitch && width == spitch) {
    return copy_between(ends, dst, src, width * height, stream);
  }
  for (size_t row = 0; row < height; ++row) {
    if (Error error = copy_between(ends, static_cast<char*>(dst) + row * dpitch,
                                   static_cast<const char*>(src) + row * spitch, width, stream)) {
      return error;
    }
    ends.to.byte_offset += dpitch;
    ends.from.byte_offset += spitch;
  }
  return {};
}

Error fill(void* address, size_t room, int32_t value, size_t count, Stream* stream) {
  if (address == nullptr) return null_pointer("devPtr");
  if (count > room) {
    return invalid("count", std::to_string(count),
                   "devPtr has room for " + std::to_string(room) + " (maxCount)");
  }
  Place place;
  if (!find_place(address, &place)) {
    if (find_host(address, count) == nullptr) {
      return {ACL_ERROR_RT_PARAM_INVALID, "devPtr is no address of device memory"};
    }
    std::memset(address, value, count);
    return {};
  }
  if (Error error = check_room("devPtr", place, count)) return error;
  if (count == 0) return {};
  return fill_device(place, static_cast<uint8_t>(value), count, stream);
}

}  // namespace
}  // namespace aclnn::runtime

using namespace aclnn::runtime;

// --- memory ------------------------------------------------------------------

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return exported([&] { return allocate(devPtr, size); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return exported([&] { return allocate(devPtr, size); });
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return exported([&] { return allocate(devPtr, size); });
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy, aclrtMallocConfig*) {
  return exported([&] { return allocate(devPtr, size); });
}

aclError aclrtFree(void* devPtr) {
  return exported([&] { return release(devPtr); });
}

aclError aclrtFreeWithDevSync(void* devPtr) {
  return exported([&]() -> Error {
    Place place;
    if (devPtr != nullptr && find_place(devPtr, &place)) {
      if (Error error = synchronize_all(*place.session, -1)) return error;
    }
    return release(devPtr);
  });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return exported([&] { return allocate_on_host(hostPtr, size); });
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig*) {
  return exported([&] { return allocate_on_host(ptr, size); });
}

aclError aclrtFreeHost(void* hostPtr) {
  return exported([&]() -> Error {
    if (hostPtr == nullptr) return null_pointer("hostPtr");
    if (free_host(hostPtr)) return {};
    return {ACL_ERROR_RT_PARAM_INVALID, "hostPtr is not from aclrtMallocHost, or was freed"};
  });
}

aclError aclrtFreeHostWithDevSync(void* hostPtr) { return aclrtFreeHost(hostPtr); }

// Device memory has no cache on this side.
aclError aclrtMemFlush(void* devPtr, size_t size) {
  return exported([&]() -> Error {
    Place place;
    if (!find_place(devPtr, &place)) {
      return {ACL_ERROR_RT_PARAM_INVALID, "devPtr is no address of device memory"};
    }
    return check_room("devPtr", place, size);
  });
}

aclError aclrtMemInvalidate(void* devPtr, size_t size) { return aclrtMemFlush(devPtr, size); }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  return exported([&]() -> Error {
    if (free == nullptr) return null_pointer("free");
    if (total == nullptr) return null_pointer("total");
    return memory_info(free, total);
  });
}

// --- copies ------------------------------------------------------------------

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  return exported([&] { return copy(dst, destMax, src, count, kind, nullptr); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream handle) {
  return exported([&] {
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) {
      return copy(dst, destMax, src, count, kind, stream.get());
    });
  });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind) {
  return exported(
      [&] { return copy_rows(dst, dpitch, src, spitch, width, height, kind, nullptr); });
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream handle) {
  return exported([&] {
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) {
      return copy_rows(dst, dpitch, src, spitch, width, height, kind, stream.get());
    });
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return exported([&] { return fill(devPtr, maxCount, value, count, nullptr); });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream handle) {
  return exported([&] {
    return with_stream(handle, [&](const std::shared_ptr<Stream>& stream) {
      return fill(devPtr, maxCount, value, count, stream.get());
    });
  });
}
