// Device addresses: ranges of this process's address space that nobody can read or write, one for
// each buffer on the server.
//
// So a device pointer supports arithmetic, is never mistaken for a host pointer, and using it on
// the host faults at once instead of reading something else.
#pragma once

#include <cstdint>

#include "runtime/session.h"

namespace aclnn::runtime {

// Reserves addresses for a buffer; null where there is no room. A page behind the end belongs to
// nobody, so that the end of one allocation is never the begin of another.
void* reserve_addresses(Session* session, uint64_t buffer_id, uint64_t bytes);

// Gives addresses back. address must be the begin of an allocation; false where it is not. place,
// if not null, takes where it was.
bool release_addresses(const void* address, Place* place);

// Gives back all addresses of a session.
void release_addresses_of(const Session* session);

}  // namespace aclnn::runtime
