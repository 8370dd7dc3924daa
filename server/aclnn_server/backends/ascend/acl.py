"""CANN's C functions, declared: the vendor's names, and one check of every return code.

Source of the signatures: the public headers ``acl/acl_rt.h`` and ``aclnn/acl_meta.h``.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_double,
    c_float,
    c_int8,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TYPE_CHECKING, Any

from aclnn import codes
from aclnn.signatures import Kind, Signature
from aclnn_server.backends.ascend.failures import failure

Function = Callable[..., Any]
Find = Callable[[str], Any]
"""Finds a function of a loaded library by its name; raises :class:`AttributeError` where there is none."""

# --- constants ------------------------------------------------------------------------------------

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_DDR_MEM = 0
ACL_HBM_MEM = 1
ACL_STREAM_STATUS_COMPLETE = 0
ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
ACL_OPT_DETERMINISTIC = 0

# --- declarations ---------------------------------------------------------------------------------

_OUT = POINTER(c_void_p)
_SIZE_OUT = POINTER(c_size_t)
# Dimensions, strides and data are given as addresses: int64_t*, int64_t*, int64_t*, void*.
_TENSOR = (c_void_p, c_uint64, c_int32, c_void_p, c_int64, c_int32, c_void_p, c_uint64, c_void_p)

_STATUS: dict[str, tuple[Any, ...]] = {
    "aclInit": (c_char_p,),
    "aclFinalize": (),
    "aclrtGetDeviceCount": (POINTER(c_uint32),),
    "aclrtSetDevice": (c_int32,),
    "aclrtResetDevice": (c_int32,),
    "aclrtGetMemInfo": (c_int32, _SIZE_OUT, _SIZE_OUT),
    "aclrtMalloc": (_OUT, c_size_t, c_int32),
    "aclrtFree": (c_void_p,),
    "aclrtMallocHost": (_OUT, c_size_t),
    "aclrtFreeHost": (c_void_p,),
    "aclrtMemcpy": (c_void_p, c_size_t, c_void_p, c_size_t, c_int32),
    "aclrtMemcpyAsync": (c_void_p, c_size_t, c_void_p, c_size_t, c_int32, c_void_p),
    "aclrtMemset": (c_void_p, c_size_t, c_int32, c_size_t),
    "aclrtMemsetAsync": (c_void_p, c_size_t, c_int32, c_size_t, c_void_p),
    "aclrtCreateStream": (_OUT,),
    "aclrtDestroyStream": (c_void_p,),
    "aclrtStreamQuery": (c_void_p, POINTER(c_int32)),
    "aclrtSynchronizeStream": (c_void_p,),
    "aclrtStreamWaitEvent": (c_void_p, c_void_p),
    "aclrtCreateEvent": (_OUT,),
    "aclrtDestroyEvent": (c_void_p,),
    "aclrtRecordEvent": (c_void_p, c_void_p),
    "aclrtQueryEventStatus": (c_void_p, POINTER(c_int32)),
    "aclrtEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "aclDestroyTensor": (c_void_p,),
    "aclDestroyScalar": (c_void_p,),
    "aclDestroyIntArray": (c_void_p,),
    "aclDestroyFloatArray": (c_void_p,),
    "aclDestroyBoolArray": (c_void_p,),
    "aclDestroyTensorList": (c_void_p,),
    "aclDestroyScalarList": (c_void_p,),
    "aclDestroyAclOpExecutor": (c_void_p,),
}
"""Functions that return a code, 0 being success, by name with the types of their parameters."""

_OPTIONAL_STATUS: dict[str, tuple[Any, ...]] = {
    "aclsysGetVersionStr": (c_char_p, c_char_p),
    "aclrtCtxSetSysParamOpt": (c_int32, c_int64),
    "aclrtSetSysParamOpt": (c_int32, c_int64),
    "aclrtDestroyStreamForce": (c_void_p,),
    "aclInitTensor": (c_void_p, *_TENSOR),
    "aclSetAclOpExecutorRepeatable": (c_void_p,),
    "aclSetInputTensorAddr": (c_void_p, c_size_t, c_void_p, c_void_p),
    "aclSetOutputTensorAddr": (c_void_p, c_size_t, c_void_p, c_void_p),
    "aclSetDynamicInputTensorAddr": (c_void_p, c_size_t, c_size_t, c_void_p, c_void_p),
    "aclSetDynamicOutputTensorAddr": (c_void_p, c_size_t, c_size_t, c_void_p, c_void_p),
}
"""The same, for those that not every version of CANN has."""

_CREATING: dict[str, tuple[Any, ...]] = {
    "aclCreateTensor": _TENSOR,
    "aclCreateScalar": (c_void_p, c_int32),
    "aclCreateIntArray": (c_void_p, c_uint64),
    "aclCreateFloatArray": (c_void_p, c_uint64),
    "aclCreateBoolArray": (c_void_p, c_uint64),
    "aclCreateTensorList": (c_void_p, c_uint64),
    "aclCreateScalarList": (c_void_p, c_uint64),
}
"""Functions that return a handle, null being failure."""

_QUICK = ("aclCreate", "aclInitTensor", "aclDestroy", "aclSet")
"""Beginnings of the names of functions that only touch the host's memory, for less time than it takes to let
other Python threads run meanwhile."""

_TEXT: dict[str, tuple[Any, ...]] = {"aclGetRecentErrMsg": (), "aclrtGetSocName": ()}
"""Functions that return a text, null where there is none."""

ARGUMENT_TYPES: dict[Kind, Any] = {
    Kind.INT64: c_int64,
    Kind.INT32: c_int32,
    Kind.INT8: c_int8,
    Kind.UINT64: c_uint64,
    Kind.BOOL: c_bool,
    Kind.DOUBLE: c_double,
    Kind.FLOAT: c_float,
    Kind.DATA_TYPE: c_int32,
    Kind.TEXT: c_char_p,
}
"""C types of the kinds of arguments that are no handles."""


class MissingFunctionError(OSError):
    """The libraries that were loaded lack functions that every CANN has."""


class Acl:
    """The functions of libascendcl and libnnopbase; those that this CANN lacks are not there.

    A call that fails raises the :class:`~aclnn.errors.AclnnError` of its code, with the text that the
    library gave the calling thread.
    """

    def __init__(self, find: Find) -> None:
        """Declares everything.

        Raises:
            MissingFunctionError: a function that every CANN has is missing; names all that are.
        """
        declared = {
            **{name: (types, c_int32) for name, types in (_STATUS | _OPTIONAL_STATUS).items()},
            **{name: (types, c_void_p) for name, types in _CREATING.items()},
            **{name: (types, c_char_p) for name, types in _TEXT.items()},
        }
        self._operators: dict[str, tuple[Function, Function]] = {}
        self._lock = threading.Lock()
        missing = []
        for name, (types, result) in declared.items():
            try:
                setattr(self, name, self._declared(find(name), types, result))
            except AttributeError:
                if name not in _OPTIONAL_STATUS:
                    missing.append(name)
        if missing:
            raise MissingFunctionError(
                f"the libraries of CANN that were loaded lack {', '.join(missing)}"
            )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Function: ...

    def has(self, name: str) -> bool:
        """Whether this CANN has a function."""
        return name in self.__dict__

    def _declared(self, function: Any, types: Sequence[Any], result: Any) -> Function:  # noqa: ANN401
        if function.__name__.startswith(_QUICK):
            function = _without_letting_go(function, types, result)
        function.argtypes = tuple(types)
        function.restype = result
        if result is c_int32:
            function.errcheck = self._check_code
        elif result is c_void_p:
            function.errcheck = self._check_handle
        return function  # type: ignore[no-any-return]

    def operator(self, find: Find, signature: Signature) -> tuple[Function, Function]:
        """Declares the two phases of an operator; once, whichever device's thread asks first.

        ctypes does not keep what a function is declared with while it is called: to declare it again
        would pull that from under the call of another thread.

        Raises:
            AttributeError: no library has them.
        """
        with self._lock:
            declared = self._operators.get(signature.name)
            if declared is None:
                declared = self._operators[signature.name] = self._declared_operator(
                    find, signature
                )
            return declared

    def _declared_operator(self, find: Find, signature: Signature) -> tuple[Function, Function]:
        arguments = [ARGUMENT_TYPES.get(row.kind, c_void_p) for row in signature.parameters]
        plan = find(f"{signature.name}GetWorkspaceSize")
        run = find(signature.name)
        plan.argtypes = (*arguments, POINTER(c_uint64), _OUT)
        run.argtypes = (c_void_p, c_uint64, c_void_p, c_void_p)
        for function, check in ((plan, self._check_plan), (run, self._check_run)):
            function.restype = c_int32
            function.errcheck = check
        return plan, run

    # --- the check of return codes ----------------------------------------------------------------

    def recent_message(self) -> str:
        """Takes the library's text about the calling thread's latest failures, newest first."""
        text: bytes | None = self.aclGetRecentErrMsg()
        return text.decode(errors="replace") if text else ""

    def _check_code(self, code: int, function: Any, _: Any) -> int:  # noqa: ANN401
        if code:
            raise failure(function.__name__, code, self.recent_message())
        return code

    def _check_handle(self, handle: int | None, function: Any, _: Any) -> int:  # noqa: ANN401
        if not handle:
            raise failure(function.__name__, codes.ACLNN_ERR_INNER_NULLPTR, self.recent_message())
        return handle

    def _check_plan(self, code: int, function: Any, _: Any) -> int:  # noqa: ANN401
        if code:
            name: str = function.__name__
            operator = name.removesuffix("GetWorkspaceSize")
            raise failure(name, code, self.recent_message(), operator=operator, planning=True)
        return code

    def _check_run(self, code: int, function: Any, _: Any) -> int:  # noqa: ANN401
        if code:
            name: str = function.__name__
            raise failure(name, code, self.recent_message(), operator=name)
        return code


def _without_letting_go(function: Any, types: Sequence[Any], result: Any) -> Any:  # noqa: ANN401
    """The same function, called without releasing Python's lock."""
    address = ctypes.cast(function, c_void_p).value
    held: Any = ctypes.PYFUNCTYPE(result, *types)(address or 0)
    held.__name__ = function.__name__
    return held


def load(path: str) -> ctypes.CDLL:
    """Opens a shared library so that the libraries opened after it find its symbols.

    Raises:
        OSError: it is not there, or lacks a library that it needs; the text says which.
    """
    return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
