"""What an operator is: its signature, its checks in the vendor's order, and the work that it plans.

A family module (``losses.py`` and others) holds a :class:`Family` and adds operators to it::

    LOSSES = Family()

    @LOSSES.operator("aclnnStatus aclnnXxxGetWorkspaceSize(…)", outputs=("out",), checks=(…))
    def xxx(call: Call) -> Work:
        '''One sentence.

        Formula, semantics, source.
        '''
        return Elementwise(…)

Everything else follows from that: validation, catalogue, documentation, the client's functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from aclnn.dtypes import DType
from aclnn.errors import AclnnError, InvalidParameterError, UnsupportedError
from aclnn.pythonic import Pythonic, Result
from aclnn.signatures import Signature, parse
from aclnn.tensors import TensorSpec
from aclnn_server.operators.products import Product

if TYPE_CHECKING:
    from aclnn_server.operators.engines.threads import Threads

Array = npt.NDArray[Any]
Memory = Mapping[str, Array]
"""uint8 array of each tensor's storage, by name of the parameter."""
Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of outputs that only their elements tell, by name of the parameter."""


class Call:
    """One call of phase one: its arguments by name, and the product whose rules hold."""

    __slots__ = ("_arguments", "product", "signature")

    def __init__(self, signature: Signature, arguments: Sequence[object], product: Product) -> None:
        self.signature = signature
        self.product = product
        names = (parameter.name for parameter in signature.parameters)
        self._arguments = dict(zip(names, arguments, strict=True))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the kinds differ by parameter
        return self._arguments[name]

    def tensor(self, name: str) -> TensorSpec:
        """The tensor of a parameter that is not null."""
        spec: TensorSpec = self._arguments[name]  # type: ignore[assignment]
        return spec

    def tensors(self, names: Sequence[str]) -> tuple[TensorSpec, ...]:
        """The tensors of several parameters that are not null."""
        return tuple(self.tensor(name) for name in names)

    def invalid(
        self,
        parameter: str,
        detail: str,
        error: type[AclnnError] = InvalidParameterError,
        code: int | None = None,
    ) -> AclnnError:
        """Makes the error of a check that failed, to be raised by the caller."""
        return error(detail, operator=self.signature.name, parameter=parameter, code=code)


class Check(Protocol):
    """One check of phase one."""

    def __call__(self, call: Call) -> None:
        """Checks a call; the checks before it have passed.

        Raises:
            AclnnError: the check failed.
        """

    @property
    def rule(self) -> str:
        """What must hold, as the end of the sentence "The call is refused unless …"."""

    @property
    def code(self) -> int:
        """Code of the failure."""


class Work(Protocol):
    """A planned computation, which can be run many times and from many threads."""

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory that a run needs, a multiple of 512."""

    def run(self, memory: Memory, workspace: Array | None, threads: Threads) -> Shapes | None:
        """Computes in place on the storages, with `workspace` as scratch.

        Gives the shapes of the operator's outputs that are ``shaped_by_data``, if it has any. Their
        elements are the first of the output, in C order; those behind them are as they were.
        """


Planner = Callable[[Call], Work]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator, complete."""

    signature: Signature
    summary: str
    """One sentence."""
    description: str
    """Formula, semantics, source; paragraphs of Markdown."""
    checks: tuple[Check, ...]
    """What phase one checks, in order."""
    planner: Planner
    """Makes the work of a call that passed the checks."""
    missing_on: frozenset[Product] = frozenset()
    """Products that do not have the operator."""
    python: Pythonic | None = None
    """The one-line Python form, where there is one."""

    @property
    def name(self) -> str:
        """C name, with the aclnn prefix."""
        return self.signature.name

    @property
    def dtypes(self) -> dict[str, tuple[DType, ...]]:
        """Element types that the reference allows, by tensor parameter."""
        found: dict[str, tuple[DType, ...]] = {}
        for check in self.checks:
            found |= getattr(check, "dtypes", {})
        return found

    def refused_because(self, product: Product) -> str:
        """Why a product does not have the operator; empty where it has."""
        if product in self.missing_on:
            return f"{self.name} is not available on {product.title} ({product.name})"
        return ""

    def plan(self, arguments: Sequence[object], product: Product) -> Work:
        """Phase one: checks the arguments, given in the order of the signature, and plans the work.

        Raises:
            AclnnError: 161001, 161002 or another of the vendor's codes, from the first check that
                fails; 207000 where the product does not have the operator.
        """
        if reason := self.refused_because(product):
            raise UnsupportedError(reason.removeprefix(f"{self.name} "), operator=self.name)
        call = Call(self.signature, arguments, product)
        for check in self.checks:
            check(call)
        return self.planner(call)


@dataclass(frozen=True, slots=True)
class OneLine:
    """The one-line Python form of an operator, as far as its signature does not tell.

    Tensors that may be null are left out of it, except those of :attr:`takes`.
    """

    name: str
    """Name in Python."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Default of each parameter that is no tensor."""
    choices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Names of the numbers of a parameter."""
    result: Result = field(default_factory=Result)
    """How the output follows from the inputs."""
    results: Mapping[str, Result] = field(default_factory=dict)
    """How those outputs follow that `result` is not for."""
    takes: tuple[str, ...] = ()
    """Inputs that it takes although they may be null."""

    def of(self, signature: Signature) -> Pythonic:
        """Completes the form with what the signature tells."""
        tensors = [row for row in signature.parameters if row.kind.holds_tensors]
        return Pythonic(
            self.name,
            signature.name,
            tuple(
                row.name
                for row in tensors
                if not row.output and (not row.optional or row.name in self.takes)
            ),
            {
                row.name: self.defaults[row.name]
                for row in signature.parameters
                if row not in tensors
            },
            {
                row.name: self.results.get(row.name, self.result)
                for row in signature.outputs
                if not row.optional
            },
            self.choices,
        )


class Family:
    """Operators that are defined together, in one module."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []

    def operator(
        self,
        prototype: str,
        *,
        outputs: Sequence[str],
        checks: Sequence[Check],
        optional: Sequence[str] = (),
        missing_on: Sequence[Product] = (),
        python: OneLine | None = None,
        shaped_by_data: Sequence[str] = (),
    ) -> Callable[[Planner], Operator]:
        """Defines an operator by the function that plans its work.

        Args:
            prototype: the vendor's C prototype of phase one.
            outputs: parameters that it writes to.
            checks: what phase one checks, in the vendor's order.
            optional: pointers that may be null, besides those whose names say so.
            missing_on: products that do not have it.
            python: the one-line Python form.
            shaped_by_data: outputs whose shape only the run tells.
        """

        def define(planner: Planner) -> Operator:
            return self.add(
                prototype,
                planner,
                planner.__doc__ or "",
                outputs=outputs,
                checks=checks,
                optional=optional,
                missing_on=missing_on,
                python=python,
                shaped_by_data=shaped_by_data,
            )

        return define

    def add(
        self,
        prototype: str,
        planner: Planner,
        text: str,
        *,
        outputs: Sequence[str],
        checks: Sequence[Check],
        optional: Sequence[str] = (),
        missing_on: Sequence[Product] = (),
        python: OneLine | None = None,
        shaped_by_data: Sequence[str] = (),
    ) -> Operator:
        """Defines an operator of a table's row; the arguments are those of :meth:`operator`, and:

        Args:
            planner: plans the work of a call that passed the checks.
            text: one sentence, an empty line, and the description.
        """
        signature = parse(
            prototype, outputs=outputs, optional=optional, shaped_by_data=shaped_by_data
        )
        summary, _, description = inspect.cleandoc(text).partition("\n\n")
        operator = Operator(
            signature,
            " ".join(summary.split()),
            description,
            tuple(checks),
            planner,
            frozenset(missing_on),
            python.of(signature) if python else None,
        )
        self.operators.append(operator)
        return operator


def prototype(name: str, parameters: str) -> str:
    """The C prototype of phase one.

    Args:
        name: C name, with the aclnn prefix.
        parameters: the parameters as C declares them, without workspaceSize and executor.
    """
    trailing = "uint64_t* workspaceSize, aclOpExecutor** executor"
    return f"aclnnStatus {name}GetWorkspaceSize({parameters}, {trailing})"
