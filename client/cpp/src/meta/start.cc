// aclnnInit and aclnnFinalize: the start and end of ACL, for programs that know only these.
#include <atomic>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

namespace {
std::atomic<bool> started{false};  // ACL, by aclnnInit
}

aclnnStatus aclnnInit(const char* configPath) {
  const aclError code = aclInit(configPath);
  if (code == ACL_ERROR_REPEAT_INITIALIZE) return OK;
  if (code == ACL_SUCCESS) started = true;
  return code;
}

aclnnStatus aclnnFinalize(void) {
  return started.exchange(false) ? aclFinalize() : static_cast<aclError>(OK);
}
