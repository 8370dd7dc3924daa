// As much of JSON as aclInit's configuration needs: whether it is JSON, and its texts and numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace aclnn::runtime {

// Reads a JSON object. Its scalars come out by their path, "outer.inner": texts without their
// quotes, other values as they are written. False where it is no JSON object.
bool read_json(std::string_view text, std::map<std::string, std::string>* scalars);

}  // namespace aclnn::runtime
