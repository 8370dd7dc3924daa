#include "elements.h"

#include <math.h>
#include <string.h>

static double halfToDouble(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023, sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == 31) {
        return fraction != 0 ? NAN : sign * INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static uint16_t doubleToHalf(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (isnan(value)) {
        return 0x7E00;
    }
    if (size >= 65520.0) {
        return sign | 0x7C00;
    }
    if (size < 6.103515625e-05) { /* below 2^-14 the steps are 2^-24 */
        return sign | (uint16_t)nearbyint(ldexp(size, 24));
    }
    int exponent;
    double fraction = nearbyint(ldexp(frexp(size, &exponent), 11)); /* 1024 to 2048 */
    return sign | (uint16_t)(((exponent + 13) << 10) + (int)fraction);
}

static uint16_t floatToBf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (isnan(value)) {
        return 0x7FC0;
    }
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static double bf16ToDouble(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#define READ(type)                             \
    {                                          \
        type value;                            \
        memcpy(&value, bytes, sizeof value);   \
        return (double)value;                  \
    }
#define WRITE(type)                            \
    {                                          \
        type stored = (type)value;             \
        memcpy(bytes, &stored, sizeof stored); \
        return;                                \
    }

double fakeDecode(const void *bytes, aclDataType dtype)
{
    uint16_t half;
    memcpy(&half, bytes, fakeItemSize(dtype) == 2 ? 2 : 1);
    switch (dtype) {
    case ACL_FLOAT: READ(float)
    case ACL_DOUBLE: READ(double)
    case ACL_FLOAT16: return halfToDouble(half);
    case ACL_BF16: return bf16ToDouble(half);
    case ACL_INT8: READ(int8_t)
    case ACL_INT16: READ(int16_t)
    case ACL_INT32: READ(int32_t)
    case ACL_INT64: READ(int64_t)
    case ACL_UINT8: READ(uint8_t)
    case ACL_UINT16: READ(uint16_t)
    case ACL_UINT32: READ(uint32_t)
    case ACL_UINT64: READ(uint64_t)
    case ACL_BOOL: return *(const unsigned char *)bytes != 0;
    default: fakeMisuse(__func__, "the double does not compute with type %d", (int)dtype);
    }
}

static void encode(void *bytes, aclDataType dtype, double value)
{
    uint16_t half;
    switch (dtype) {
    case ACL_FLOAT: WRITE(float)
    case ACL_DOUBLE: WRITE(double)
    case ACL_FLOAT16: half = doubleToHalf(value); memcpy(bytes, &half, 2); return;
    case ACL_BF16: half = floatToBf16((float)value); memcpy(bytes, &half, 2); return;
    case ACL_INT8: WRITE(int8_t)
    case ACL_INT16: WRITE(int16_t)
    case ACL_INT32: WRITE(int32_t)
    case ACL_INT64: WRITE(int64_t)
    case ACL_UINT8: WRITE(uint8_t)
    case ACL_UINT16: WRITE(uint16_t)
    case ACL_UINT32: WRITE(uint32_t)
    case ACL_UINT64: WRITE(uint64_t)
    case ACL_BOOL: *(unsigned char *)bytes = value != 0; return;
    default: fakeMisuse(__func__, "the double does not compute with type %d", (int)dtype);
    }
}

static char *placeOf(const FakeTensor *tensor, const int64_t *index)
{
    int64_t element = tensor->offset;
    for (int i = 0; i < tensor->rank; i++) {
        element += index[i] * tensor->strides[i];
    }
    return tensor->data + element * (int64_t)fakeItemSize(tensor->dtype);
}

double fakeLoad(const FakeTensor *tensor, const int64_t *index)
{
    return fakeDecode(placeOf(tensor, index), tensor->dtype);
}

void fakeStore(const FakeTensor *tensor, const int64_t *index, double value)
{
    encode(placeOf(tensor, index), tensor->dtype, value);
}

double fakeRounded(double value, aclDataType dtype)
{
    char bytes[16] = {0};
    encode(bytes, dtype, value);
    return fakeDecode(bytes, dtype);
}

double fakeScalarValue(const aclScalar *given)
{
    const aclScalar *scalar = fakeUse(__func__, given, KIND_SCALAR);
    return fakeDecode(scalar->bytes, scalar->dtype);
}

/* --- shapes ------------------------------------------------------------------------------------- */

void fakeBroadcastIndex(const FakeTensor *tensor, int rank, const int64_t *index, int64_t *own)
{
    for (int i = 0; i < tensor->rank; i++) {
        own[i] = tensor->shape[i] == 1 ? 0 : index[rank - tensor->rank + i];
    }
}

double fakeLoadBroadcast(const FakeTensor *tensor, int rank, const int64_t *index)
{
    int64_t own[MAX_RANK];
    fakeBroadcastIndex(tensor, rank, index, own);
    return fakeLoad(tensor, own);
}

bool fakeNext(int rank, const int64_t *shape, int64_t *index)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < shape[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

bool fakeBroadcast(const FakeTensor *tensor, int *rank, int64_t *shape)
{
    int wider = tensor->rank > *rank ? tensor->rank : *rank;
    int64_t result[MAX_RANK];
    for (int i = 0; i < wider; i++) {
        int64_t a = i < wider - *rank ? 1 : shape[i - (wider - *rank)];
        int64_t b = i < wider - tensor->rank ? 1 : tensor->shape[i - (wider - tensor->rank)];
        if (a != b && a != 1 && b != 1) {
            return false;
        }
        result[i] = a == 1 ? b : a;
    }
    memcpy(shape, result, sizeof(int64_t) * (size_t)wider);
    *rank = wider;
    return true;
}

bool fakeSameShape(const FakeTensor *tensor, int rank, const int64_t *shape)
{
    return tensor->rank == rank && memcmp(tensor->shape, shape, sizeof(int64_t) * (size_t)rank) == 0;
}

/* --- types -------------------------------------------------------------------------------------- */

bool fakeIsFloat(aclDataType dtype)
{
    return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16 || dtype == ACL_DOUBLE;
}

bool fakeAllowedFloat(aclDataType dtype)
{
    bool bf16 = strncmp(fakeSoc(), "Ascend910B", 10) == 0 || strncmp(fakeSoc(), "Ascend910_93", 12) == 0 ||
                strncmp(fakeSoc(), "Ascend950", 9) == 0;
    return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || (dtype == ACL_BF16 && bf16);
}

aclDataType fakePromote(aclDataType a, aclDataType b) { return a == b ? a : ACL_FLOAT; }
