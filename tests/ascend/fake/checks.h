/* Checks that several operators make; each returns from phase one with the vendor's code. */
#ifndef FAKE_CHECKS_H
#define FAKE_CHECKS_H

#include "elements.h"

#define NOT_NULL(pointer)                                                       \
    if ((pointer) == NULL) {                                                    \
        return fakeError(ACLNN_ERR_PARAM_NULLPTR, "%s is a null pointer", #pointer); \
    }

#define CHECK(condition, ...)                                    \
    if (!(condition)) {                                          \
        return fakeError(ACLNN_ERR_PARAM_INVALID, __VA_ARGS__);  \
    }

#define FLOAT_TYPE(tensor) \
    CHECK(fakeAllowedFloat(fakeTensor(__func__, tensor)->dtype), "%s has a type that is not supported", #tensor)

#endif
