// Whether bytes are UTF-8, as every text in the protocol must be.
#pragma once

#include <string_view>

namespace aclnn::ops {

// Refuses overlong forms, surrogates, and what is beyond U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace aclnn::ops
