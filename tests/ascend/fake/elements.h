/* Elements of tensors as numbers, whatever their type and however they lie. */
#ifndef FAKE_ELEMENTS_H
#define FAKE_ELEMENTS_H

#include "objects.h"

/* The element at an index, one number per dimension. */
FAKE_API double fakeLoad(const FakeTensor *tensor, const int64_t *index);
/* Rounds to nearest even, and saturates nothing. */
FAKE_API void fakeStore(const FakeTensor *tensor, const int64_t *index, double value);
/* A value as it comes out of the type. */
FAKE_API double fakeRounded(double value, aclDataType dtype);
FAKE_API double fakeDecode(const void *bytes, aclDataType dtype);

/* Index of a broadcast tensor for an index of the broadcast shape of `rank` dimensions. */
FAKE_API void fakeBroadcastIndex(const FakeTensor *tensor, int rank, const int64_t *index, int64_t *own);
FAKE_API double fakeLoadBroadcast(const FakeTensor *tensor, int rank, const int64_t *index);
/* Steps to the next index in C order; false after the last one. */
FAKE_API bool fakeNext(int rank, const int64_t *shape, int64_t *index);
/* Widens `shape` by the tensor's; false where they do not broadcast together. */
FAKE_API bool fakeBroadcast(const FakeTensor *tensor, int *rank, int64_t *shape);
FAKE_API bool fakeSameShape(const FakeTensor *tensor, int rank, const int64_t *shape);

FAKE_API bool fakeIsFloat(aclDataType dtype);
/* FLOAT, FLOAT16, and BF16 where the SoC has it. */
FAKE_API bool fakeAllowedFloat(aclDataType dtype);
/* The type in which two float types meet. */
FAKE_API aclDataType fakePromote(aclDataType a, aclDataType b);

#endif
