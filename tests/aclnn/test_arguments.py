"""Arguments of phase one, to the wire and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aclnn import arguments, dtypes, formats
from aclnn.arguments import TensorArgument, decode, decode_all, encode
from aclnn.errors import InvalidParameterError, NullPointerError
from aclnn.signatures import Kind, Parameter, parse
from aclnn.tensors import Scalar, TensorSpec
from aclnn.v1 import tensor_pb2 as pb

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)
SCALARS = st.builds(Scalar, FLOAT32, st.just("FLOAT")) | st.builds(Scalar, INT64, st.just("INT64"))


@st.composite
def tensors(draw: st.DrawFn) -> TensorArgument:
    """Any tensor that can be sent; the view need not lie inside its storage."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    storage = draw(st.just(shape) | hnp.array_shapes(max_dims=2, max_side=30))
    spec = TensorSpec(
        draw(st.sampled_from([row for row in dtypes.ALL if row.bits])),
        shape,
        draw(
            st.just(TensorSpec.contiguous(shape, dtypes.INT8).strides)
            | st.tuples(*[INT64] * len(shape))
        ),
        draw(INT64),
        storage,
        draw(st.sampled_from(formats.ALL)),
    )
    if draw(st.booleans()):
        return TensorArgument(spec, bytes(spec.storage_bytes))
    if draw(st.booleans()):
        return TensorArgument(spec, None, draw(st.integers(1, 2**64 - 1)), draw(st.integers(0, 99)))
    return TensorArgument(spec)


VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.TENSOR: tensors(),
    Kind.TENSOR_LIST: st.lists(tensors(), max_size=3).map(tuple),
    Kind.SCALAR: SCALARS,
    Kind.SCALAR_LIST: st.lists(SCALARS, max_size=3).map(tuple),
    Kind.INT_ARRAY: st.lists(INT64, max_size=4).map(tuple),
    Kind.FLOAT_ARRAY: st.lists(FLOAT32, max_size=4).map(tuple),
    Kind.BOOL_ARRAY: st.lists(st.booleans(), max_size=4).map(tuple),
    Kind.TEXT: st.text(st.characters(exclude_categories=["Cs"])),
    Kind.INT64: INT64,
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT8: st.integers(-128, 127),
    Kind.UINT64: st.integers(0, 2**64 - 1),
    Kind.BOOL: st.booleans(),
    Kind.DOUBLE: st.floats(allow_nan=False),
    Kind.FLOAT: FLOAT32,
    Kind.DATA_TYPE: st.sampled_from(dtypes.ALL),
}


def parameter(kind: Kind) -> Parameter:
    return Parameter("x", f"the C type of {kind.name}", kind)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
@given(data=st.data())
def test_what_is_encoded_is_decoded(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    wire = encode(parameter(kind), value).SerializeToString()
    decoded = decode(parameter(kind), pb.Argument.FromString(wire))
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.pointer], ids=lambda k: k.name)
def test_null_pointers(kind: Kind) -> None:
    argument = encode(parameter(kind), None)
    assert argument == pb.Argument(null=pb.Null())
    assert decode(parameter(kind), argument) is None


@pytest.mark.parametrize("kind", [kind for kind in Kind if not kind.pointer], ids=lambda k: k.name)
def test_null_for_a_value(kind: Kind) -> None:
    with pytest.raises(InvalidParameterError, match="x is None, which is no the C type of"):
        encode(parameter(kind), None)
    with pytest.raises(
        NullPointerError, match=r"x is null; a the C type of .* cannot be"
    ) as caught:
        decode(parameter(kind), pb.Argument(null=pb.Null()), "aclnnX")
    assert (caught.value.operator, caught.value.parameter) == ("aclnnX", "x")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.TENSOR, 1),
        (Kind.TENSOR, [1.0]),
        (Kind.TENSOR_LIST, [1]),
        (Kind.SCALAR, 1.0),
        (Kind.SCALAR, Scalar(300, "INT8")),
        (Kind.SCALAR, Scalar(1, "HIFLOAT8")),
        (Kind.SCALAR_LIST, [1.0]),
        (Kind.INT_ARRAY, [1.5]),
        (Kind.INT_ARRAY, [2**63]),
        (Kind.INT_ARRAY, 3),
        (Kind.FLOAT_ARRAY, ["1"]),
        (Kind.BOOL_ARRAY, [2]),
        (Kind.TEXT, b"mean"),
        (Kind.INT64, 1.0),
        (Kind.INT64, 2**63),
        (Kind.INT64, "1"),
        (Kind.INT32, 2**31),
        (Kind.INT8, 128),
        (Kind.INT8, -129),
        (Kind.UINT64, -1),
        (Kind.BOOL, 2),
        (Kind.BOOL, "yes"),
        (Kind.DOUBLE, "1.0"),
        (Kind.FLOAT, 1j),
        (Kind.DATA_TYPE, "float33"),
    ],
)
def test_values_that_do_not_fit_the_C_type(kind: Kind, value: object) -> None:
    with pytest.raises(InvalidParameterError, match="which is no the C type of") as caught:
        encode(parameter(kind), value, "aclnnX")
    assert (caught.value.operator, caught.value.parameter) == ("aclnnX", "x")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Kind.INT64, np.int32(3), 3),
        (Kind.INT64, True, 1),
        (Kind.BOOL, np.bool_(True), True),
        (Kind.BOOL, 1, True),
        (Kind.FLOAT, 1, 1.0),
        (Kind.DOUBLE, np.float32(0.5), 0.5),
        (Kind.INT_ARRAY, np.array([1, 2]), (1, 2)),
        (Kind.INT_ARRAY, range(2), (0, 1)),
        (Kind.DATA_TYPE, "bfloat16", dtypes.BF16),
        (Kind.DATA_TYPE, np.float16, dtypes.FLOAT16),
    ],
)
def test_values_that_convert_exactly(kind: Kind, value: object, expected: object) -> None:
    assert decode(parameter(kind), encode(parameter(kind), value)) == expected


def test_defaults_are_left_out_of_the_message() -> None:
    spec = TensorSpec.contiguous((2, 3), dtypes.FLOAT)
    message = arguments.encode_tensor(TensorArgument(spec, bytes(24)))
    assert (list(message.strides), list(message.storage_shape)) == ([], [])


def test_a_view_over_a_storage_without_dimensions() -> None:
    spec = TensorSpec(dtypes.FLOAT, (3,), (0,), 0, ())
    sent = arguments.encode_tensor(TensorArgument(spec, bytes(4)))
    assert arguments.decode_tensor(sent).spec == replace(spec, storage_shape=(1,))


# ---------------------------------------------------------------------------------------- refusals


def tensor(**fields: Any) -> pb.Argument:  # noqa: ANN401
    return pb.Argument(tensor=pb.Tensor(**{"data_type": 1, "shape": [2], **fields}))


@pytest.mark.parametrize(
    ("kind", "argument", "message"),
    [
        (Kind.TENSOR, pb.Argument(), "x is nothing; a .* takes a tensor"),
        (Kind.TENSOR, pb.Argument(bool_value=True), "x is a bool_value; a .* takes a tensor"),
        (Kind.FLOAT, pb.Argument(double_value=1), "x is a double_value; a .* takes a float_value"),
        (Kind.TENSOR, tensor(data_type=0), "x has no data type; known are 1 to 27"),
        (Kind.TENSOR, tensor(data_type=99), "x has data type number 99"),
        (Kind.TENSOR, tensor(data_type=13), "x is of STRING, of which no tensor can be served"),
        (Kind.TENSOR, tensor(format=99), "x has format number 99; known are 0 to 19"),
        (Kind.TENSOR, tensor(shape=[-1]), "a dimension must be at least 0"),
        (Kind.TENSOR, tensor(shape=[1] * 65), "has 65 dimensions in its shape"),
        (Kind.TENSOR, tensor(storage_shape=[2**40, 2**40]), "more than 2\\*\\*63 - 1 bytes"),
        (Kind.TENSOR, tensor(strides=[1, 1]), "has 2 strides for 1 dimensions"),
        (Kind.TENSOR, tensor(data=bytes(7)), "x has 7 bytes; .* of FLOAT needs 8"),
        (Kind.TENSOR, tensor(data=bytes(9), storage_shape=[2]), "x has 9 bytes"),
        (
            Kind.TENSOR_LIST,
            pb.Argument(tensor_list=pb.TensorList(tensors=[tensor().tensor, pb.Tensor()])),
            r"x\[1\] has no data type",
        ),
        (Kind.SCALAR, pb.Argument(scalar=pb.Scalar(value=b"1")), "x has no data type"),
        (
            Kind.SCALAR,
            pb.Argument(scalar=pb.Scalar(data_type=pb.DATA_TYPE_HIFLOAT8, value=b"1")),
            "no scalar can be",
        ),
        (
            Kind.SCALAR,
            pb.Argument(scalar=pb.Scalar(data_type=pb.DATA_TYPE_FLOAT, value=b"1")),
            "x has 1 bytes",
        ),
        (
            Kind.SCALAR_LIST,
            pb.Argument(
                scalar_list=pb.ScalarList(scalars=[pb.Scalar(data_type=pb.DATA_TYPE_FLOAT)])
            ),
            r"x\[0\] has 0 bytes",
        ),
        (Kind.INT8, pb.Argument(int8_value=128), "x is 128; int8_t holds -128 to 127"),
        (Kind.DATA_TYPE, pb.Argument(data_type=pb.DATA_TYPE_UNSPECIFIED), "x has no data type"),
    ],
)
def test_what_the_server_refuses(kind: Kind, argument: pb.Argument, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message) as caught:
        decode(parameter(kind), argument, "aclnnX")
    assert caught.value.code == 161002
    assert caught.value.operator == "aclnnX"
    assert caught.value.parameter.startswith("x")


@pytest.mark.parametrize("field", ["shape", "storage_shape", "strides"])
def test_a_hundred_thousand_dimensions_are_refused_at_once(field: str) -> None:
    with pytest.raises(InvalidParameterError, match=r"has 100000 (dimensions|strides)"):
        decode(parameter(Kind.TENSOR), tensor(**{field: [2**62] * 100_000}))


def test_all_arguments_of_a_call() -> None:
    signature = parse(
        "aclnnStatus aclnnXGetWorkspaceSize(const aclScalar* alpha, int64_t dim, bool keep,"
        " uint64_t* workspaceSize, aclOpExecutor** executor)"
    )
    values = (None, -1, True)
    sent = [encode(p, value) for p, value in zip(signature.parameters, values, strict=True)]
    assert decode_all(signature, iter(sent)) == values

    with pytest.raises(
        InvalidParameterError, match="got 2 arguments; it takes 3: alpha, dim"
    ) as few:
        decode_all(signature, sent[:2])
    assert few.value.parameter == "keep"
    with pytest.raises(InvalidParameterError, match="got 4 arguments; it takes 3") as many:
        decode_all(signature, [*sent, sent[0]])
    assert many.value.parameter == ""


def test_long_values_are_shortened_in_the_error() -> None:
    with pytest.raises(InvalidParameterError) as caught:
        encode(parameter(Kind.INT64), "9" * 1000)
    assert len(caught.value.message) < 120
