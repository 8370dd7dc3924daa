// Checks for the test programs: each failure is printed, and the program ends with how many there
// were.
#pragma once

#include <iostream>
#include <string>
#include <string_view>

#include "acl/acl.h"

namespace aclnn::tests {

inline int failures = 0;

template <class Left, class Right>
void expect_equal(const Left& left, const Right& right, const char* text, const char* file,
                  int line) {
  if (left == right) return;
  ++failures;
  std::cerr << file << ":" << line << ": " << text << ": " << left << " is not " << right << "\n";
}

inline void expect(bool holds, const char* text, const char* file, int line) {
  if (holds) return;
  ++failures;
  std::cerr << file << ":" << line << ": " << text << "\n";
}

// The text of this thread's latest failure, which is forgotten then.
inline std::string recent_text() {
  const char* text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace aclnn::tests

#define EXPECT_EQ(left, right) \
  aclnn::tests::expect_equal((left), (right), #left, __FILE__, __LINE__)
#define EXPECT(condition) aclnn::tests::expect((condition), #condition, __FILE__, __LINE__)
// A call returns a code, and the text about it says something.
#define EXPECT_REFUSED(call, code, part)                                                          \
  do {                                                                                            \
    EXPECT_EQ((call), (code));                                                                    \
    const std::string told = aclnn::tests::recent_text();                                         \
    aclnn::tests::expect(aclnn::tests::contains(told, (part)), told.c_str(), __FILE__, __LINE__); \
  } while (false)
