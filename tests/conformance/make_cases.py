"""Writes the cases: ``python -m tests.conformance.make_cases [--check]``.

Arrays and expected results are the golden vectors of tests/data, or NumPy's own; of the server's is only how
many elements count of a result that is as large as they make it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from aclnn import dtypes, errors
from aclnn.signatures import Kind, Parameter
from aclnn.tensors import Scalar
from aclnn_server.operators.catalogue import built_in
from tests.conformance.cases import (
    FOLDER,
    REPEATED,
    Array,
    Case,
    Group,
    Step,
    scalar,
    tensor,
)
from tests.conformance.golden import Golden, golden_cases
from tests.operators.calling import shapes

LARGE = 300_000
"""Elements of FLOAT whose work has a thread of its own."""
C_LIBRARY = "aclnn-client-cpp"
"""Where ACL's runtime has a code of its own for a failure, the C library tells that one."""


def floats(values: list[float]) -> Array:
    """An array of FLOAT."""
    return np.array(values, np.float32)


# --- every operator, by the golden vectors ------------------------------------------------------------


def operators() -> Group:
    """One case of each operator, of another element type from one to the next."""
    group = Group("operators")
    kinds: dict[str, dict[str, Golden]] = {}
    known = built_in()
    for golden in golden_cases():
        if golden.operator == "aclnnNLLLoss" and golden.name.endswith("none"):
            continue  # without a reduction its second output is nobody's business
        signature = known[golden.operator].signature
        if any(row.kind is Kind.SCALAR_LIST for row in signature.parameters):
            continue  # the form of the cases has no lists of numbers
        given = [*golden.inputs.values(), *golden.outputs.values()]
        if any(isinstance(array, np.ndarray) and array.size > REPEATED for array in given):
            continue
        kinds.setdefault(golden.operator, {}).setdefault(golden.name.split("-")[0], golden)
    for number, (operator, found) in enumerate(sorted(kinds.items())):
        golden = [*found.values()][number % len(found)]
        _operator(group.case(f"{operator}/{golden.name}"), golden, known)
    return group


def _operator(case: Case, golden: Golden, known: Any) -> None:  # noqa: ANN401
    names: dict[str, list[str]] = {}
    arguments = []
    parameters = known[golden.operator].signature.parameters
    for parameter in parameters:
        if parameter.name in golden.inputs:
            value = golden.inputs[parameter.name]
        else:
            value = _output(golden, parameter)
        arguments.append(_argument(case, parameter, value, names))
    case.run(golden.operator, *arguments)
    told = _shapes(golden, parameters)
    for name, expected in golden.outputs.items():
        parts = expected if isinstance(expected, list) else [expected]
        for place, part in zip(names[name], parts, strict=True):
            shape = told.get(name, part.shape)
            result = part.reshape(-1)[: math.prod(shape)].reshape(shape)
            case.read(place, result, golden.tolerance)


def _shapes(golden: Golden, parameters: Sequence[Parameter]) -> dict[str, tuple[int, ...]]:
    """Shapes of outputs that only the elements tell: theirs are the first of what the golden vector has."""
    if not any(parameter.shaped_by_data for parameter in parameters):
        return {}
    arguments = [
        golden.inputs[row.name] if row.name in golden.inputs else _output(golden, row)
        for row in parameters
    ]
    return shapes(golden.operator, *arguments)


def _output(golden: Golden, parameter: Parameter) -> Any:  # noqa: ANN401
    expected = golden.outputs.get(parameter.name)
    if isinstance(expected, list):
        return [np.zeros_like(part) for part in expected]
    return None if expected is None else np.zeros_like(expected)


def _argument(case: Case, parameter: Parameter, value: Any, names: dict[str, list[str]]) -> Step:  # noqa: ANN401
    if value is None and parameter.kind.pointer:
        return {"null": True}
    if isinstance(value, np.ndarray):
        names[parameter.name] = [case.tensor(value)]
        return tensor(names[parameter.name][0])
    if parameter.kind is Kind.TENSOR_LIST:
        names[parameter.name] = [case.tensor(item) for item in value]
        return {"tensors": names[parameter.name]}
    if isinstance(value, Scalar):
        return scalar(value.value, value.dtype.name)
    return _number(parameter, value)


def _number(parameter: Parameter, value: Any) -> Step:  # noqa: ANN401
    match parameter.kind:
        case Kind.INT_ARRAY:
            return {"ints": [str(item) for item in value]}
        case Kind.FLOAT_ARRAY | Kind.BOOL_ARRAY:
            return {"floats" if parameter.kind is Kind.FLOAT_ARRAY else "bools": list(value)}
        case Kind.SCALAR:
            return scalar(value, "FLOAT" if isinstance(value, float) else "INT64")
        case Kind.DATA_TYPE:
            return {"data_type": dtypes.dtype(value).name}
        case Kind.BOOL:
            return {"bool": bool(value)}
        case Kind.DOUBLE | Kind.FLOAT:
            return {"double": float(value)}
        case Kind.TEXT:
            return {"text": value}
    return {"int": str(int(value))}


# --- tensors -----------------------------------------------------------------------------------------


def tensors() -> Group:
    """Every element type bit by bit; views; tensors without elements or dimensions; large ones."""
    group = Group("tensors")
    pattern = (np.arange(256) * 37 % 256).astype(np.uint8)
    for dtype in dtypes.ALL:
        if dtype.numpy is not None and not dtype.packed:
            data = pattern & 1 if dtype.kind == "bool" else pattern
            array = data.view(dtype.numpy)
            case = group.case(f"bits of {dtype.name}")
            case.read(case.tensor(array), array)
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    views: dict[str, dict[str, Any]] = {
        "transposed": {"shape": [4, 3], "strides": [1, 4]},
        "backwards": {"shape": [2, 2], "strides": [-4, -2], "offset": 11},
        "repeated": {"shape": [2, 4], "strides": [0, 1], "offset": 4},
        "a column": {"shape": [3], "strides": [4], "offset": 2},
        "one element": {"shape": [], "strides": [], "offset": 7},
    }
    for name, layout in views.items():
        case = group.case(f"view, {name}")
        start = layout.get("offset", 0) * 4
        steps = [4 * step for step in layout["strides"]]
        view = np.ndarray(layout["shape"], np.float32, grid.tobytes(), start, steps)
        x, out = case.tensor(grid, **layout), case.empty(layout["shape"], "FLOAT")
        case.read(x, view.copy())
        case.run("aclnnNeg", tensor(x), tensor(out))
        case.read(out, -view)
    case = group.case("an output in a transposed view")
    storage = np.zeros((3, 4), np.float32)
    out = case.tensor(storage, shape=[4, 3], strides=[1, 4])
    case.run("aclnnNeg", tensor(case.tensor(np.ascontiguousarray(grid.T))), tensor(out))
    case.read(out, np.ascontiguousarray(-grid.T))
    case = group.case("broadcasting")
    one, other, out = case.tensor(grid[:, :1]), case.tensor(grid[0]), case.empty([3, 4], "FLOAT")
    case.run("aclnnAdd", tensor(one), tensor(other), scalar(2, "INT64"), tensor(out))
    case.read(out, grid[:, :1] + 2 * grid[0])
    case = group.case("no elements")
    x, out = case.empty([0, 3], "FLOAT"), case.empty([0, 3], "FLOAT")
    case.run("aclnnNeg", tensor(x), tensor(out))
    case.read(out, np.empty((0, 3), np.float32))
    for name in ("int64", "uint8", "int8"):
        limits = np.iinfo(name)
        case = group.case(f"extremes of {limits.dtype}")
        array = np.array([limits.min, limits.max], name)
        x, out = case.tensor(array), case.empty([2], dtypes.dtype(name).name)
        case.run("aclnnMul", tensor(x), tensor(case.tensor(np.ones(2, name))), tensor(out))
        case.read(out, array)
    case = group.case("not a number, infinities, and zeros with signs")
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    x, out = case.tensor(odd), case.empty([5], "FLOAT")
    case.run("aclnnAbs", tensor(x), tensor(out))
    case.read(out, np.abs(odd))
    return group


# --- executors, streams, events, order -----------------------------------------------------------------


def executors() -> Group:
    """Repeatable executors, workspaces, order, streams and events."""
    group = Group("executors")
    one = floats([1, 2])
    case = group.case("repeatable, and with other tensors")
    number = case.tensor(one)
    plus = [tensor(number), scalar(1, "INT64"), scalar(1, "INT64"), tensor(number)]
    executor = case.plan("aclnnAdds", *plus, repeatable=True)
    for _ in range(3):
        case.do("execute", executor=executor)
    case.read(number, one + 3)
    other, out = case.tensor(one * 10), case.empty([2], "FLOAT")
    case.do("execute", executor=executor, bindings={"self": other, "out": out})
    case.read(out, one * 10 + 1)
    case.read(other, one * 10)
    case.do("destroy_executor", executor=executor)

    case = group.case("many in order, without waiting")
    number = case.tensor(np.array([0], np.int64))
    for digit in range(1, 10):
        case.run("aclnnMuls", tensor(number), scalar(10, "INT64"), tensor(number))
        arguments = [tensor(number), scalar(digit, "INT64"), scalar(1, "INT64"), tensor(number)]
        case.run("aclnnAdds", *arguments)
    case.read(number, np.array([123456789], np.int64))

    case = group.case("memory that is freed while work uses it")
    x, out = case.tensor(np.ones(LARGE, np.float32)), case.empty([LARGE], "FLOAT")
    case.kit("hold")
    case.run("aclnnNeg", tensor(x), tensor(out))
    case.do("free", tensor=x)
    case.kit("release")
    case.read(out, -np.ones(LARGE, np.float32))

    case = group.case("events across streams")
    for stream in ("s1", "s2"):
        case.do("stream", **{"as": stream})
    x = case.tensor(np.ones(LARGE, np.float32))
    between, out = case.empty([LARGE], "FLOAT"), case.empty([LARGE], "FLOAT")
    for event in ("start", "done"):
        case.do("event", **{"as": event})
    case.kit("hold")
    case.do("record", event="start", stream="s1")
    case.run("aclnnNeg", tensor(x), tensor(between), stream="s1")
    case.do("record", event="done", stream="s1")
    case.do("wait_event", event="done", stream="s2")
    case.run("aclnnNeg", tensor(between), tensor(out), stream="s2")
    case.do("query_event", event="done", expect={"complete": False})
    case.do("elapsed", start="start", end="done", fails=_failure("NOT_READY", 107006))
    case.do("synchronize", stream="s1", timeout_ms=1, fails=_failure("WAIT_TIMEOUT", 507046))
    case.kit("release")
    case.do("synchronize", stream="s2")
    case.do("query_event", event="done", expect={"complete": True})
    case.read(out, np.ones(LARGE, np.float32))
    return group


def _failure(reason: str, code: int, **more: str | dict[str, int]) -> Step:
    return {"reason": reason, "code": code, **more}


# --- errors --------------------------------------------------------------------------------------------


def failures() -> Group:
    """What is refused, and every reason there is."""
    group = Group("failures", max_streams=3, max_context_bytes=2**26, client_context_rate=0)
    ones = np.ones((4, 2), np.float32)

    def phase_one(case: Case, failure: Step, operator: str, *arguments: Step) -> None:
        case.plan(operator, *arguments, fails=failure)

    case = group.case("a value outside of what is allowed")
    inputs = [tensor(case.tensor(ones)) for _ in range(3)]
    out = tensor(case.empty([4, 2], "FLOAT"))
    operator = "aclnnSmoothL1LossBackward"
    told = _failure("INVALID_PARAMETER", 161002, operator=operator, parameter="beta")
    phase_one(case, told, operator, *inputs, {"int": "0"}, {"double": -1.0}, out)
    told = _failure("NULL_POINTER", 161001, operator=operator, parameter="self")
    null: Step = {"null": True}
    phase_one(case, told, operator, inputs[0], null, inputs[2], {"int": "0"}, {"double": 1.0}, out)
    told = _failure("VIEW_OUTSIDE_STORAGE", 561103, operator=operator)
    outside = tensor(case.tensor(ones, offset=3))
    phase_one(
        case, told, operator, inputs[0], outside, *inputs[2:], {"int": "0"}, {"double": 1.0}, out
    )
    phase_one(case, _failure("OPERATOR_NOT_FOUND", 100024), "aclnnNotThere", inputs[0], out)

    case = group.case("a one-shot executor that is used twice")
    x, out_name = case.tensor(ones), case.empty([4, 2], "FLOAT")
    executor = case.plan("aclnnNeg", tensor(x), tensor(out_name))
    case.do("execute", executor=executor)
    case.do("execute", executor=executor, later=_failure("EXECUTOR_USED", 200005))
    case.do("synchronize", told=True)
    case.do("synchronize")
    case.read(out_name, -ones)

    case = group.case("a buffer that was freed")
    x, out_name = case.tensor(ones), case.empty([4, 2], "FLOAT")
    case.do("free", tensor=x)
    told = _failure(
        "HANDLE_NOT_FOUND", 107017, codes={C_LIBRARY: 161002}
    )  # an address that is none
    phase_one(case, told, "aclnnSqrt", tensor(x), tensor(out_name))

    case = group.case("more memory, more streams than allowed")
    case.do("buffer", **{"as": "b1"}, bytes=2**27, later=_failure("OUT_OF_MEMORY", 207001))
    case.do("synchronize", told=True)
    for name in ("s1", "s2"):
        case.do("stream", **{"as": name})
    case.do("stream", **{"as": "s3"}, fails=_failure("LIMIT_EXCEEDED", 207012))

    for reason, kind in errors.BY_REASON.items():
        case = group.case(f"reason {reason}")
        case.do("close")
        if reason != "WAIT_TIMEOUT":  # no call that opens a context has one
            case.kit("fail", where="open", reason=reason)
            case.do("connect", fails=_failure(reason, kind.default_code))
        case.do("connect")
        x, out_name = case.tensor(ones), case.empty([4, 2], "FLOAT")
        case.kit("fail", where="plan", reason=reason)
        told = _failure(reason, kind.default_code)
        if reason != "INTERNAL":
            told |= {"parameter": "planted", "says": f"a planted {reason} grüße 你好"}
        phase_one(case, told, "aclnnExp", tensor(x), tensor(out_name))
        case.kit("fail", where="run", reason=reason)
        executor = case.plan("aclnnNeg", tensor(x), tensor(out_name))
        told = _failure(reason, kind.default_code)
        if reason == "EXECUTION_FAILED":  # the runtime's word for a kernel that failed
            told["codes"] = {C_LIBRARY: 507015}
        case.do("execute", executor=executor, later=told)
        case.do("synchronize", told=True)
        case.do("synchronize")
    return group


# --- connections ---------------------------------------------------------------------------------------


def connections() -> Group:
    """Connections that break, leases that end, servers that are started anew."""
    group = Group("connections", client_context_rate=0)
    for way in ("up", "down"):
        for count in (0, 9, 30, 100, 400):
            case = group.case(f"cut after {count} bytes {way}")
            number = case.tensor(np.array([1], np.int64))
            case.do("synchronize")
            case.kit("cut_after", **{way: count})
            for digit in (2, 3, 4):
                case.run("aclnnMuls", tensor(number), scalar(10, "INT64"), tensor(number))
                plus = [tensor(number), scalar(digit, "INT64"), scalar(1, "INT64"), tensor(number)]
                case.run("aclnnAdds", *plus)
            case.read(number, np.array([1234], np.int64))
            case.kit("cut_after")
    case = group.case("cut between calls")
    x = case.tensor(floats([1]))
    for _ in range(3):
        case.kit("cut")
        case.read(x, floats([1]))
    case = group.case("a lease that ended")
    x = case.tensor(floats([1]))
    case.read(x, floats([1]))
    case.kit("block")
    case.kit("end_all_leases")
    case.kit("unblock")
    case.do("read", tensor=x, fails=_failure("HANDLE_NOT_FOUND", 107017))
    case = group.case("a server that was started anew")
    x = case.tensor(floats([1]))
    case.read(x, floats([1]))
    case.kit("restart")
    case.do("read", tensor=x, fails=_failure("SESSION_LOST", 507010))
    case.do("close")
    case.do("connect")
    case.read(case.tensor(floats([2])), floats([2]))
    return group


GROUPS = (operators, tensors, executors, failures, connections)


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    files = {name: data for make in GROUPS for name, data in make().files().items()}
    FOLDER.mkdir(exist_ok=True)
    stale = [
        name
        for name, data in files.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_bytes() != data
    ]
    for name in stale:
        print(f"stale: {name}" if "--check" in arguments else f"wrote {name}")
        if "--check" not in arguments:
            (FOLDER / name).write_bytes(files[name])
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
