"""``aclnn-serve call``: one operator from the shell."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aclnn_server.cli import catalogue
from aclnn_server.cli.exits import CommandError, Exit, describe_exits
from aclnn_server.cli.parsing import (
    PROGRAM,
    Commands,
    Parser,
    add_command,
    add_timeout,
    append_help,
)
from aclnn_server.cli.remote import (
    Credentials,
    add_credentials,
    connect,
    connection,
    credentials,
)

if TYPE_CHECKING:
    from aclnn.signatures import Parameter
    from aclnn.tensors import TensorSpec
    from aclnn_server.cli.computing import Result
    from aclnn_server.cli.values import Array, Output

_VALUES = """
arguments, by the kind of the C parameter:
  tensor    FORM[:DTYPE], FLOAT where no dtype is given; FORM is one of
              FILE.npy         a file of NumPy's
              ones:4x2         also zeros, empty (zeros as well) and arange
              full:4x2:3.5     all the same
              rand:4x2         uniform in [0, 1); with a seed: rand:4x2:float32:7
              [[1,2],[3,4]]    the elements
              2.5              one number, no dimensions
  output    FILE.npy to save it, or a tensor for its shape, dtype and first content, or both:
            empty:4x2:float32:out.npy. Left out: shape and dtype by the operator's rule, and printed.
  scalar    2.5 or 2.5:float16
  array     [1,2]
  list      of tensors: a.npy,ones:4x2
  number    3, 0.5, true; or a name where the operator has some: reduction=mean
  null      for pointers; also what an optional pointer is when left out"""


def add(commands: Commands[Parser]) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "call",
        run,
        summary="run one operator on files or numbers",
        details="""
            Runs one operator through both phases, and saves or prints its outputs. Without --address it runs
            in a server of its own, on this machine's CPU.
            """,
        examples=f"""
            {PROGRAM} call SmoothL1LossBackward gradOutput=ones:4x2 self=arange:4x2 target=ones:4x2 \\
                reduction=none beta=1.0
            {PROGRAM} call aclnnSmoothL1Loss self=x.npy target=y.npy reduction=mean beta=1 \\
                result=loss.npy --address 127.0.0.1:50051
            """,
    )
    parser.add_argument("name", metavar="NAME", help="operator, with or without the aclnn prefix")
    parser.add_argument(
        "arguments", nargs="*", metavar="PARAMETER=VALUE", help="by the C prototype's names"
    )
    parser.add_argument("--address", help="HOST:PORT or unix:PATH of a server")
    parser.add_argument(
        "--soc", help="without --address: product whose dtype rules hold (default: reference)"
    )
    add_timeout(parser, 60.0)
    add_credentials(parser)
    exits = (Exit.DONE, Exit.NO, Exit.USAGE, Exit.NO_ANSWER)
    append_help(parser, f"{_VALUES.strip()}\n\n{describe_exits(*exits)}")


def run(options: argparse.Namespace) -> int:
    """Reads the arguments, runs the operator, and saves or prints what it gives."""
    if options.address and options.soc:
        raise CommandError("--soc is for a server of its own; the one at --address has its rules")
    entry = _entry(options)
    arguments = read_arguments(entry, options.arguments)
    with _server(options) as (address, known):
        results = _compute(address, known, entry, arguments, options.timeout)
    for result in results:
        _deliver(result)
    return Exit.DONE


def _entry(options: argparse.Namespace) -> catalogue.Entry:
    if not options.address:
        return catalogue.local_entry(options.name, options.soc or "reference")
    with connection(options.address, options.timeout, credentials(options)) as server:
        return catalogue.remote_entry(server, options.name)


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[tuple[str, Credentials]]:
    if options.address:
        yield options.address, credentials(options)
        return
    from aclnn_server.config import ServerConfig
    from aclnn_server.server import Server

    with Server(ServerConfig(listen="127.0.0.1:0", soc=options.soc or "reference")) as server:
        yield server.address, Credentials()


# --- arguments --------------------------------------------------------------------------------------


def read_arguments(entry: catalogue.Entry, assignments: Sequence[str]) -> list[Any]:
    """Reads ``PARAMETER=VALUE`` texts.

    Returns:
        Arguments in the prototype's order, as :func:`aclnn_server.cli.values.read` gives them. Outputs that
        were left out are in it, with their shapes by the operator's rule.

    Raises:
        CommandError: a parameter is unknown, missing or given twice, or its value cannot be read.
        NullPointerError: 161001, an input is null from which the shape of an output would follow.
        InvalidParameterError: 161002, no shape of an output follows from the inputs.
    """
    texts = _texts(entry, assignments)
    values = {
        parameter.name: _read(entry, parameter, texts[parameter.name])
        if parameter.name in texts
        else _left_out(entry, parameter)
        for parameter in entry.signature.parameters
    }
    return list(_with_shapes(entry, values).values())


def _texts(entry: catalogue.Entry, assignments: Sequence[str]) -> dict[str, str]:
    names = [parameter.name for parameter in entry.signature.parameters]
    texts: dict[str, str] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise CommandError(f"{assignment!r} is no PARAMETER=VALUE")
        if name not in names:
            raise CommandError(f"{entry.name} has no parameter {name!r}; it has {', '.join(names)}")
        if name in texts:
            raise CommandError(f"{name} is given twice")
        texts[name] = text
    _check_complete(entry, texts)
    return texts


def _check_complete(entry: catalogue.Entry, texts: Mapping[str, str]) -> None:
    needed = [p for p in entry.signature.parameters if not (p.output or p.optional)]
    missing = [f"{p.name} ({p.c_type})" for p in needed if p.name not in texts]
    if missing:
        raise CommandError(f"{entry.name} needs {', '.join(missing)} as well")


def _read(entry: catalogue.Entry, parameter: Parameter, text: str) -> Any:  # noqa: ANN401
    from aclnn_server.cli import values

    choices = entry.python.choices.get(parameter.name, {}) if entry.python else {}
    try:
        return values.read(parameter, text, choices)
    except ValueError as error:
        names = f"; or one of {', '.join(choices)}" if choices else ""
        raise CommandError(f"{parameter.name}: {error}{names}") from None


def _left_out(entry: catalogue.Entry, parameter: Parameter) -> Output | None:
    from aclnn_server.cli.values import Output

    return None if parameter.optional and not _has_rule(entry, parameter.name) else Output()


def _has_rule(entry: catalogue.Entry, name: str) -> bool:
    return entry.python is not None and name in entry.python.outputs


def _with_shapes(entry: catalogue.Entry, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with outputs that have no shape yet given the operator's own."""
    from aclnn_server.cli.values import Output

    shapes: dict[str, Array] | None = None
    for name, value in values.items():
        if isinstance(value, Output) and value.initial is None:
            _refuse_null(entry, values)
            if not _has_rule(entry, name):
                raise CommandError(
                    f"{name}: {entry.name} has no rule for its shape here; give it, for example "
                    f"{name}=empty:4x2:float32"
                )
            shapes = shapes or _by_rule(entry, values)
            values[name] = Output(shapes[name], value.file)
    return values


def _refuse_null(entry: catalogue.Entry, values: Mapping[str, Any]) -> None:
    """Refuses what the operator would: it comes to no check of its own without a shape to send."""
    from aclnn.errors import NullPointerError

    for parameter in entry.signature.parameters:
        name = parameter.name
        if values[name] is None and not (parameter.output or parameter.optional):
            raise NullPointerError(f"{name} is a null pointer", operator=entry.name, parameter=name)


def _by_rule(entry: catalogue.Entry, values: Mapping[str, Any]) -> dict[str, Array]:
    from aclnn import dtypes
    from aclnn.tensors import TensorSpec

    form = entry.python
    assert form is not None
    for name in form.inputs:
        if values[name] is None:
            outputs = ", ".join(form.outputs)
            raise CommandError(f"{name} is null, so that the shape of {outputs} must be given")
    given = (values[name] for name in form.inputs)
    flat = [item for value in given for item in (value if isinstance(value, tuple) else (value,))]
    inputs = [TensorSpec.contiguous(item.shape, dtypes.dtype(item.dtype)) for item in flat]
    specs = form.results(inputs, {name: values[name] for name in form.attributes})
    return {name: _room(name, spec) for name, spec in zip(form.outputs, specs, strict=True)}


def _room(name: str, spec: TensorSpec) -> Array:
    import numpy as np

    from aclnn_server.cli import fitting

    try:
        fitting.check_size(spec.shape, spec.dtype)
        return np.zeros(spec.shape, spec.numpy_dtype())
    except MemoryError:
        raise CommandError(f"{name}: {fitting.too_large(spec.shape, spec.dtype)}") from None
    except ValueError as error:
        raise CommandError(f"{name}: {error}") from None


# --- running and delivering -------------------------------------------------------------------------


def _compute(
    address: str,
    known: Credentials,
    entry: catalogue.Entry,
    arguments: Sequence[Any],
    timeout: float,
) -> list[Result]:
    from aclnn_server.cli.computing import compute

    with connect(address, timeout, known) as context:
        return compute(context, entry.signature, arguments)


def _deliver(result: Result) -> None:
    import numpy as np

    from aclnn_server.cli.results import describe, show

    title = f"{result.name}: {describe(result.array)}"
    if result.output.file is None:
        print(f"{title}\n{show(result.array)}")
        return
    try:
        np.save(result.output.file, result.array)
    except OSError as error:
        raise CommandError(f"{result.output.file}: {error.strerror or error}", Exit.NO) from None
    print(f"{title} -> {result.output.file}")
