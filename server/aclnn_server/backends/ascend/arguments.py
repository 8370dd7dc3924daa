"""Arguments of phase one in C: Python's values to handles and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from ctypes import addressof, c_int32, c_int64, c_uint64, c_void_p, create_string_buffer
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from aclnn.dtypes import DType
from aclnn.errors import InvalidParameterError
from aclnn.signatures import Kind, Parameter, Signature
from aclnn.tensors import Scalar, TensorSpec
from aclnn_server.backends.ascend import handles
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.handles import Handle
from aclnn_server.backends.ascend.memory import Region
from aclnn_server.backends.base import Storage, Value

ALIGNMENT = 32
"""Bytes of which an aclTensor's address must be a multiple."""
MAX_DIMENSIONS = 25
"""Dimensions that CANN's shapes have room for."""
IDLE_TENSORS = 512
"""aclTensors that are kept to be used again."""


class Described:
    """A spec as aclCreateTensor takes it: eight arguments, and the arrays that they point to."""

    __slots__ = ("_arrays", "arguments", "reusable")

    def __init__(self, spec: TensorSpec) -> None:
        count = max(len(spec.shape), len(spec.storage_shape))
        if count > MAX_DIMENSIONS:
            raise InvalidParameterError(
                f"a tensor has {count} dimensions; CANN has room for {MAX_DIMENSIONS}"
            )
        shape, strides, storage = self._arrays = tuple(
            (c_int64 * len(dims))(*dims) for dims in (spec.shape, spec.strides, spec.storage_shape)
        )
        rank = len(spec.shape)
        # As objects of the C types: they are made once, and not at every call.
        self.arguments = (
            *(c_void_p(addressof(shape)), c_uint64(rank)),
            *(c_int32(spec.dtype.acl), c_void_p(addressof(strides)), c_int64(spec.offset)),
            c_int32(spec.format.acl),
            *(c_void_p(addressof(storage)), c_uint64(len(spec.storage_shape))),
        )
        # aclInitTensor leaves the dimensions of a tensor as they were when it is given none.
        self.reusable = bool(rank and spec.storage_shape)


Place = tuple[Described, int]
"""A tensor: how it lies over its storage, and the storage's address."""

described = lru_cache(maxsize=8192)(Described)
"""The same, remembered: calls repeat."""


@lru_cache(maxsize=1024)
def shifted(spec: TensorSpec, elements: int) -> TensorSpec:
    """The spec of the same elements in a storage that begins so many elements earlier."""
    storage = (spec.storage_elements + elements,)
    return replace(spec, offset=spec.offset + elements, storage_shape=storage)


def placed(spec: TensorSpec, address: int) -> Place:
    """A tensor at an address, described for CANN, with the aligned address that it is to get.

    Raises:
        InvalidParameterError: 161002, more dimensions than CANN has room for; an address that is
            neither aligned nor whole elements behind one that is, or of a private format.
    """
    surplus = address % ALIGNMENT
    if not surplus:
        return described(spec), address
    size = spec.dtype.itemsize
    if not size or surplus % size or not spec.format.plain:
        raise InvalidParameterError(
            f"a tensor begins {surplus} bytes behind a multiple of {ALIGNMENT}, and is {spec.dtype} in "
            f"format {spec.format}; only whole elements of a plain format can lie there"
        )
    return described(shifted(spec, surplus // size)), address - surplus


class Tensors:
    """Makes aclTensors, and uses them again: for the device's thread.

    A tensor that was given back is handed out again for the same place. When enough are kept, the oldest
    gets a new place by aclInitTensor, which is what CANN has it for.
    """

    def __init__(self, acl: Acl, nowhere: int, kept: int = IDLE_TENSORS) -> None:
        """Makes an empty stock.

        Args:
            acl: CANN's functions.
            nowhere: address of tensors that have none yet.
            kept: tensors to keep at most.
        """
        self._acl = acl
        self._nowhere = nowhere
        self._kept = kept
        self._idle: dict[Place, list[int]] = {}
        self._count = 0
        self._can_move = acl.has("aclInitTensor")

    def take(self, place: Place) -> int:
        """A tensor; give it back with :meth:`give_back`."""
        idle = self._idle.get(place)
        if idle:
            self._count -= 1
            return idle.pop()
        if self._count < self._kept:
            return self._create(place)
        moved = self._pop_oldest()
        if not (self._can_move and place[0].reusable):
            handles.end(self._acl.aclDestroyTensor, moved)
            return self._create(place)
        try:
            self._acl.aclInitTensor(moved, *place[0].arguments, place[1] or self._nowhere)
        except BaseException:
            handles.end(self._acl.aclDestroyTensor, moved)
            raise
        return moved

    def _create(self, place: Place) -> int:
        made: int = self._acl.aclCreateTensor(*place[0].arguments, place[1] or self._nowhere)
        return made

    def _pop_oldest(self) -> int:
        while True:
            place, idle = next(iter(self._idle.items()))
            if len(idle) <= 1:
                del self._idle[place]
            if idle:
                self._count -= 1
                return idle.pop()

    def create(self, place: Place) -> Handle:
        """A tensor for a list, which will own it."""
        return Handle(self._create(place), self._acl.aclDestroyTensor)

    def give_back(self, used: Iterable[tuple[Place, int]]) -> None:
        """Takes tensors back that no executor holds any more, with the places they were taken for."""
        for place, handle in used:
            idle = self._idle.get(place)
            if idle is None:
                idle = self._idle[place] = []
            idle.append(handle)
            self._count += 1

    def close(self) -> None:
        """Destroys what is kept."""
        for idle in self._idle.values():
            for handle in idle:
                handles.end(self._acl.aclDestroyTensor, handle)
        self._idle.clear()
        self._count = 0


@dataclass(slots=True)
class Arguments:
    """The C arguments of one call, and all that they hold."""

    values: list[Any] = field(default_factory=list)
    """As the function takes them."""
    tensors: list[tuple[Place, int]] = field(default_factory=list)
    """Tensors to give back, with their places."""
    owned: list[Handle] = field(default_factory=list)
    """Everything else, in order of the parameters."""
    moved: bool = False
    """Whether an executor was told other addresses, so that tensors are not where they were placed."""

    def release(self, stock: Tensors, acl: Acl) -> None:
        """Gives everything back; no executor holds it any more."""
        for handle in reversed(self.owned):
            handle.close()
        self.owned.clear()
        if self.moved:
            for _, tensor in self.tensors:
                handles.end(acl.aclDestroyTensor, tensor)
        else:
            stock.give_back(self.tensors)
        self.tensors.clear()


def addresses(signature: Signature, storages: Sequence[Storage]) -> tuple[Any, ...]:
    """Where the tensors of a call lie: an address each, of a list a tuple of them; 0 where not known."""
    if not storages:
        return (0,) * len(signature.parameters)
    return tuple(
        [
            0
            if storage is None
            else tuple(0 if region is None else region.address for region in storage)
            if isinstance(storage, tuple)
            else storage.address
            for storage in storages
        ]
    )


Maker = Callable[[Any, Any, Arguments], object]
Makers = tuple[tuple[int, Parameter, Maker], ...]
"""What makes the arguments that ctypes does not take as they are: position, parameter, function."""


class Converter:
    """Makes C arguments; for the device's thread."""

    def __init__(self, acl: Acl, tensors: Tensors) -> None:
        self._acl = acl
        self._tensors = tensors

    def makers(self, signature: Signature) -> Makers:
        """What makes the arguments of an operator."""
        makers: dict[Kind, Maker] = {
            Kind.TENSOR: self._tensor,
            Kind.TENSOR_LIST: self._tensor_list,
            Kind.SCALAR: self._scalar,
            Kind.SCALAR_LIST: self._scalar_list,
            Kind.INT_ARRAY: partial(self._array, handles.int_array),
            Kind.FLOAT_ARRAY: partial(self._array, handles.float_array),
            Kind.BOOL_ARRAY: partial(self._array, handles.bool_array),
            Kind.TEXT: self._text,
            Kind.DATA_TYPE: self._data_type,
        }
        return tuple(
            (position, row, self._own_tensor if row.shaped_by_data else makers[row.kind])
            for position, row in enumerate(signature.parameters)
            if row.kind in makers
        )

    def convert(
        self, operator: str, makers: Makers, values: Sequence[Value], places: Sequence[object]
    ) -> Arguments:
        """Converts the arguments of a call.

        Args:
            operator: C name, for errors.
            makers: of :meth:`makers`.
            values: by parameter.
            places: of :func:`addresses`.

        Raises:
            InvalidParameterError: 161002, CANN has no such tensor, scalar or text; names the parameter.
            AclnnError: CANN could not make something; nothing is left behind.
        """
        made = Arguments(list(values))
        for position, parameter, maker in makers:
            value = values[position]
            if value is None:
                continue
            try:
                made.values[position] = maker(value, places[position], made)
            except BaseException as error:
                made.release(self._tensors, self._acl)
                if isinstance(error, InvalidParameterError) and not error.parameter:
                    raise InvalidParameterError(
                        f"{parameter.name}: {error.message}",
                        operator=operator,
                        parameter=parameter.name,
                    ) from None
                raise
        return made

    def _tensor(self, spec: TensorSpec, address: int, made: Arguments) -> int:
        place = placed(spec, address) if address % ALIGNMENT else (described(spec), address)
        handle = self._tensors.take(place)
        made.tensors.append((place, handle))
        return handle

    def _own_tensor(self, spec: TensorSpec, address: int, made: Arguments) -> int | None:
        """A tensor that is not used again: the run gives it another shape."""
        made.owned.append(self._tensors.create(placed(spec, address)))
        return made.owned[-1].value

    def _tensor_list(
        self, specs: tuple[TensorSpec, ...], address: int | tuple[int, ...], made: Arguments
    ) -> int | None:
        each = address if isinstance(address, tuple) else (0,) * len(specs)
        elements = [
            partial(self._tensors.create, placed(spec, at))
            for spec, at in zip(specs, each, strict=True)
        ]
        made.owned.append(handles.tensor_list(self._acl, elements))
        return made.owned[-1].value

    def _scalar(self, value: Scalar, _: object, made: Arguments) -> int | None:
        made.owned.append(handles.scalar(self._acl, _bytes_of(value), value.dtype))
        return made.owned[-1].value

    def _scalar_list(self, values: tuple[Scalar, ...], _: object, made: Arguments) -> int | None:
        elements = [
            partial(handles.scalar, self._acl, _bytes_of(value), value.dtype) for value in values
        ]
        made.owned.append(handles.scalar_list(self._acl, elements))
        return made.owned[-1].value

    def _array(
        self,
        make: Callable[[Acl, Any], Handle],
        values: tuple[Any, ...],
        _: object,
        made: Arguments,
    ) -> int | None:
        made.owned.append(make(self._acl, values))
        return made.owned[-1].value

    @staticmethod
    def _text(value: str, _: object, __: Arguments) -> object:
        data = value.encode()
        if b"\0" in data:
            raise InvalidParameterError("the text has a zero inside, where C ends a text")
        return create_string_buffer(data)  # of its own: not every parameter is const

    @staticmethod
    def _data_type(value: DType, _: object, __: Arguments) -> int:
        return value.acl


def _bytes_of(value: Scalar) -> bytes:
    try:
        return value.to_bytes()
    except (TypeError, OverflowError, ValueError) as error:
        raise InvalidParameterError(f"{value.value!r} is no {value.dtype}") from error


def regions(storages: Sequence[Storage]) -> Iterator[Region]:
    """All memory of a call."""
    for storage in storages:
        if isinstance(storage, tuple):
            yield from (region for region in storage if region is not None)
        elif storage is not None:
            yield storage
