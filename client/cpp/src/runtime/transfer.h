// Bytes between the caller's memory and the device, in chunks of which several are under way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/error.h"
#include "runtime/handles.h"
#include "runtime/session.h"

namespace aclnn::runtime {

// A copy is work of a stream, or of none: then it is done at once, after the work that uses the
// memory. All check nothing: the ranges must lie inside the allocations.

// Copies to the device. When it returns, `data` may be changed, unless it is from aclrtMallocHost
// and the copy is a stream's.
Error copy_to_device(const Place& to, const char* data, uint64_t bytes, Stream* stream);

// Copies from the device. It returns when the bytes are there, unless `data` is from
// aclrtMallocHost and the copy is a stream's: then they are there when the stream has been
// synchronised.
Error copy_from_device(char* data, const Place& from, uint64_t bytes, Stream* stream);

// Copies on the device, or from one to another; between two devices it returns when it is done.
Error copy_on_device(const Place& to, const Place& from, uint64_t bytes, Stream* stream);

// Sets bytes. Never waits.
Error fill_device(const Place& to, uint8_t value, uint64_t bytes, Stream* stream);

}  // namespace aclnn::runtime
