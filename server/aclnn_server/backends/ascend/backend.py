"""Every operator of an installed CANN, on the NPUs that the server was given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from ctypes import byref, c_uint32, create_string_buffer
from dataclasses import replace
from types import MappingProxyType

from aclnn import codes
from aclnn.errors import AclnnError
from aclnn.signatures import Signature
from aclnn_server.backends.ascend.acl import Acl
from aclnn_server.backends.ascend.device import AscendDevice, MakePool
from aclnn_server.backends.ascend.handles import end
from aclnn_server.backends.ascend.headers import Headers, read_headers
from aclnn_server.backends.ascend.loader import Cann, open_cann, set_environment
from aclnn_server.backends.ascend.memory import MemoryPool
from aclnn_server.backends.base import Backend, OperatorInfo
from aclnn_server.operators.catalogue import operators as catalogue
from aclnn_server.operators.definition import Operator
from aclnn_server.operators.products import PRODUCTS, REFERENCE, Product, product


class AscendBackend(Backend):
    """NPUs, through CANN."""

    name = "ascend"

    def __init__(
        self,
        device: str = "0",
        soc: str = REFERENCE.name,
        *,
        deterministic: bool = True,
        make_pool: MakePool = MemoryPool,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Finds CANN, starts it and opens the devices.

        Args:
            device: ``all``, or the numbers of the devices to open, such as ``0,1``.
            soc: product whose rules explain what CANN refuses; reference takes the chip's own.
            deterministic: whether operators must give the same bits at every run.
            make_pool: makes a device's pool of memory.
            environment: where CANN is looked for.

        Raises:
            CannNotFoundError: no usable CANN; the text tells all that was tried.
            MissingFunctionError: CANN lacks functions that the server needs.
            AclnnError: CANN could not be started, or a device not be opened.
            ValueError: `device` or `soc` is none.
        """
        self.cann = open_cann(environment)
        if environment is os.environ:
            set_environment(self.cann, os.environ)
        self.acl = Acl(self.cann.find)
        self.headers = read_headers(self.cann.headers)
        self._open: list[AscendDevice] = []
        self._started = _start(self.acl)
        try:
            chip = self.acl.aclrtGetSocName()
            self.soc = chip.decode() if chip else "unknown chip"
            rules = product(soc)
            self.product = product_of(self.soc) if rules is REFERENCE else rules
            self._operators = _catalogue(self.cann, self.headers, self.product)
            signatures = {
                name: info.signature
                for name, info in self._operators.items()
                if not info.refused_because
            }
            for index, number in enumerate(chosen(device, device_count(self.acl))):
                self._open.append(
                    AscendDevice(
                        index,
                        number,
                        self.acl,
                        find=self.cann.find_operator,
                        signatures=signatures,
                        soc=self.soc,
                        product=self.product,
                        deterministic=deterministic,
                        make_pool=make_pool,
                    )
                )
        except BaseException:
            self.close()
            raise

    def versions(self) -> dict[str, str]:
        """Versions that CANN's packages tell of themselves, by name of the package."""
        found = {}
        for package in ("runtime", "opp"):
            text = create_string_buffer(256)
            try:
                if self.acl.has("aclsysGetVersionStr"):
                    self.acl.aclsysGetVersionStr(package.encode(), text)
            except AclnnError:
                continue
            found[package] = text.value.decode(errors="replace")
        return {package: version for package, version in found.items() if version}

    @property
    def operators(self) -> Mapping[str, OperatorInfo]:
        """Every operator of the headers and of the catalogue; what cannot be run says why."""
        return self._operators

    @property
    def devices(self) -> Sequence[AscendDevice]:
        """The open devices."""
        return self._open

    def close(self) -> None:
        """Ends the devices, and then ACL, where this backend started it."""
        while self._open:
            self._open.pop().close()
        if self._started:
            self._started = False
            end(self.acl.aclFinalize)


# --- ACL ------------------------------------------------------------------------------------------


def _start(acl: Acl) -> bool:
    """Starts ACL; returns whether it was not running already."""
    try:
        acl.aclInit(None)
    except AclnnError as error:
        if error.code != codes.ACL_ERROR_REPEAT_INITIALIZE:
            raise
        return False
    return True


def device_count(acl: Acl) -> int:
    """Devices that ACL sees; ACL is running."""
    count = c_uint32()
    acl.aclrtGetDeviceCount(byref(count))
    return count.value


def chosen(device: str, count: int) -> list[int]:
    """The devices that a setting names.

    Args:
        device: ``all``, or numbers such as ``0,1``.
        count: devices that there are.

    Raises:
        ValueError: it names no device, one that there is not, or one twice.
    """
    if device.strip().lower() == "all":
        numbers = list(range(count))
    else:
        words = [word.strip() for word in device.split(",")]
        if not all(word.isdecimal() for word in words):
            raise ValueError(f"device is {device!r}; it must be all, or numbers such as 0,1")
        numbers = [int(word) for word in words]
    if not numbers:
        raise ValueError("CANN sees no device; npu-smi info tells what the driver sees")
    if len(set(numbers)) < len(numbers) or max(numbers) >= count:
        raise ValueError(f"device is {device!r}; there are devices 0 to {count - 1}, each once")
    return numbers


def product_of(soc: str) -> Product:
    """The product that a chip's name stands for; the reference where the name is not known."""
    lowered = soc.lower()
    matching = [name for name in PRODUCTS if lowered.startswith(name)]
    return PRODUCTS[max(matching, key=len)] if matching else REFERENCE


# --- the catalogue --------------------------------------------------------------------------------

_SUMMARY = "Operator of the installed CANN; see the vendor's documentation."
_DESCRIPTION = (
    "The installed CANN declares this operator in its headers, and the call is made exactly as they "
    "say. What it computes, and for which types and shapes, the vendor's documentation tells. Which "
    "parameters it writes to follows from the header by rules, since headers do not tell."
)


def _catalogue(cann: Cann, headers: Headers, rules: Product) -> Mapping[str, OperatorInfo]:
    known = catalogue()
    declared = {name: row.signature for name, row in known.items()} | headers.operators
    found = {
        name: replace(
            _described(signature, known.get(name), rules), refused_because=cann.lacks(name)
        )
        for name, signature in declared.items()
        if name not in headers.refused
    }
    for name, reason in headers.refused.items():
        described = _described(Signature(name, ()), known.get(name), rules)
        found[name] = replace(described, refused_because=f"its header cannot be served: {reason}")
    return MappingProxyType(dict(sorted(found.items())))


def _described(signature: Signature, operator: Operator | None, rules: Product) -> OperatorInfo:
    """An operator with all that is known of it; the header says which types its arguments have."""
    if operator is None:
        return OperatorInfo(signature, _SUMMARY, _DESCRIPTION)
    same = [row.kind for row in signature.parameters] == [
        row.kind for row in operator.signature.parameters
    ]
    return OperatorInfo(
        operator.signature if same else signature,
        operator.summary,
        operator.description,
        {name: rules.allowed(types) for name, types in operator.dtypes.items()} if same else None,
        others=() if operator.refused_because(rules) else ("numpy",),
        python=operator.python if same else None,
    )
