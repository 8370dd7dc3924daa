"""Runs cases against a client: starts its program, sends it one step after the other, compares."""

from __future__ import annotations

import json
import queue
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from aclnn import dtypes
from tests.conformance.bench import Bench
from tests.conformance.cases import FOLDER

PATIENCE = 60.0
"""Seconds that a client may take for one step."""

Answer = dict[str, Any]
Json = Any


class WrongAnswerError(Exception):
    """What a client did is not what the case asks for."""


class Client:
    """The program that does the steps with a client: a line of JSON in, a line of JSON out."""

    def __init__(self, command: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            shlex.split(command),
            cwd=folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.name: str = self.ask({"do": "hello"})["ok"]["client"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, step: Mapping[str, Json]) -> Answer:
        """Sends one step.

        Raises:
            WrongAnswerError: the program ended, or gave no answer in time, or none that can be read.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(step) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=PATIENCE)
            answer: Answer = json.loads(line)
        except (OSError, queue.Empty, ValueError) as error:
            raise WrongAnswerError(f"no answer: {error!r}") from error
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Run:
    """One run of the cases of a group."""

    def __init__(self, client: Client, bench: Bench, group: Path, scratch: Path) -> None:
        self._client = client
        self._bench = bench
        self._bytes = group.with_suffix(".bin")
        self._scratch = scratch
        self._due: Json = None
        """A failure that was not told yet."""

    def case(self, steps: list[Json]) -> None:
        """Runs one case.

        Raises:
            WrongAnswerError: a step went otherwise than it should.
        """
        self._due = None
        try:
            self._expect(self._client.ask({"do": "connect", "address": self._bench.address}), {})
            for number, step in enumerate(steps):
                try:
                    self._step(step)
                except WrongAnswerError as failure:
                    raise WrongAnswerError(
                        f"step {number}, {json.dumps(step)[:200]}: {failure}"
                    ) from None
            if self._due is not None:
                raise WrongAnswerError(f"never told: {self._due}")
        finally:
            self._bench.release()
            self._bench.unblock()
            self._client.ask({"do": "close"})

    def _step(self, step: Json) -> None:
        if "kit" in step:
            found = self._bench.do(step["kit"])
            if "expect" in step and found != step["expect"]:
                raise WrongAnswerError(f"{found!r}, and not {step['expect']!r}")
            return
        asked = {k: v for k, v in step.items() if k not in ("expect", "fails", "later", "told")}
        if "data" in asked:
            asked["data"] = self._located(asked["data"])
        if step["do"] == "connect":
            asked["address"] = self._bench.address
        if step["do"] == "read":
            asked["into"] = str(self._scratch / "read.bin")
        self._expect(self._client.ask(asked), step)
        if step["do"] == "read" and "expect" in step:
            self._compare(Path(asked["into"]), step["expect"])

    def _located(self, data: Json) -> Json:
        if "repeat" not in data:
            return {"file": str(self._bytes), **data}
        path = self._scratch / f"{data['repeat']}-{data['bytes']}.bin"
        if not path.exists():
            path.write_bytes(self._wanted(data))
        return {"file": str(path), "offset": 0, "bytes": data["bytes"]}

    def _wanted(self, data: Json) -> bytes:
        if "repeat" in data:
            element = bytes.fromhex(data["repeat"])
            return element * (int(data["bytes"]) // len(element))
        start = data["offset"]
        return self._bytes.read_bytes()[start : start + data["bytes"]]

    def _expect(self, answer: Answer, step: Json) -> None:
        failure = answer.get("error")
        if "later" in step:
            if failure is None:
                self._due = step["later"]
            else:
                self._check_failure(failure, step["later"])
            return
        wanted = step.get("fails")
        if step.get("told") and self._due is not None:
            wanted, self._due = self._due, None
        if wanted is not None:
            if failure is None:
                raise WrongAnswerError(f"succeeded, and should have failed with {wanted}")
            self._check_failure(failure, wanted)
        elif failure is not None:
            raise WrongAnswerError(f"failed: {failure}")
        elif step.get("do") != "read":
            for name, value in step.get("expect", {}).items():
                if answer["ok"].get(name) != value:
                    raise WrongAnswerError(
                        f"{name} is {answer['ok'].get(name)!r}, and not {value!r}"
                    )

    def _check_failure(self, found: Answer, wanted: Json) -> None:
        for name, value in wanted.items():
            if name == "says":
                if value not in found["message"]:
                    raise WrongAnswerError(f"says {found['message']!r}, and not {value!r}")
            elif name in found and name != "code" and found[name] != value:
                raise WrongAnswerError(
                    f"failed with {name} {found[name]!r}, and not {value!r}: {found}"
                )
        code = wanted.get("codes", {}).get(self._client.name, wanted["code"])
        if found.get("code") != code:
            raise WrongAnswerError(f"failed with code {found.get('code')}, and not {code}: {found}")

    def _compare(self, path: Path, expect: Json) -> None:
        wanted, found = self._wanted(expect["data"]), path.read_bytes()
        if wanted == found:
            return
        tolerance, numpy = expect.get("tolerance"), dtypes.dtype(expect["dtype"]).numpy
        if tolerance is not None and len(wanted) == len(found):
            kind = np.complex128 if "COMPLEX" in expect["dtype"] else np.float64
            one, other = (np.frombuffer(data, numpy).astype(kind) for data in (found, wanted))
            if np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                return
        raise WrongAnswerError(f"read {found[:32].hex()}…, and not {wanted[:32].hex()}…")


def run(command: str, folder: Path, only: str = "") -> Iterator[tuple[str, str]]:
    """Runs the cases.

    Args:
        command: starts the client's program.
        folder: where it is started.
        only: part of the names of the cases to run; all where empty.

    Yields:
        Name of each case, and what went wrong; empty where nothing did.
    """
    with Client(command, folder) as client, tempfile.TemporaryDirectory() as scratch:
        for path in sorted(FOLDER.glob("*.json")):
            group = json.loads(path.read_text("utf-8"))
            cases = [case for case in group["cases"] if only in case["name"]]
            if not cases:
                continue
            settings = {"client_context_rate": 0, "context_rate": 0, **group["settings"]}
            with Bench(**settings) as bench:
                this = Run(client, bench, path, Path(scratch))
                for case in cases:
                    yield case["name"], _tried(this, case["steps"])


def _tried(this: Run, steps: list[Json]) -> str:
    try:
        this.case(steps)
    except WrongAnswerError as failure:
        return str(failure)
    return ""
