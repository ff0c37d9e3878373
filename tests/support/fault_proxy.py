"""A TCP proxy before a server that does to connections what networks do to them."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["FAULTS", "FaultProxy", "running_proxy"]

FAULTS = ("delay", "cut", "half-open", "truncate")
_CHUNK = 65536
_DELAY_S = 0.02
_RESET = struct.pack("ii", 1, 0)


class FaultProxy:
    """Forwards connections to a server's socket; `fault` is what it does to them."""

    def __init__(self, target: Path) -> None:
        self.fault = ""
        self._target = str(target)
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def start_fault(self, fault: str) -> None:
        """Begin one of `FAULTS`; a cut also ends the connections that are open."""
        assert fault in FAULTS
        self.fault = fault
        if fault == "cut":
            self._drop_all()

    def heal(self) -> None:
        """End the fault. Connections that were half open stay dead."""
        self.fault = ""

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        self._drop_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._connect(near)

    def _connect(self, near: socket.socket) -> None:
        if self.fault == "cut":
            _reset(near)
            return
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self._target)
        except OSError:
            _reset(near)
            return
        with self._lock:
            self._pairs.append((near, far))
        for source, sink, answers in ((near, far, False), (far, near, True)):
            arguments = (source, sink, answers)
            threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        lost = False
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                # Once bytes were lost, nothing that follows may arrive.
                lost = lost or self.fault == "half-open"
                if lost:
                    continue
                if self.fault == "delay":
                    time.sleep(_DELAY_S)
                if self.fault == "truncate" and answers:
                    sink.sendall(data[: len(data) // 2])
                    break
                sink.sendall(data)
        if not lost:
            _reset(source)
            _reset(sink)

    def _drop_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _reset(end)


def _reset(end: socket.socket) -> None:
    """Close a socket so that the other side gets an error, not an end."""
    with suppress(OSError):
        if end.family == socket.AF_INET:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextmanager
def running_proxy(target: Path) -> Iterator[FaultProxy]:
    """Yield a proxy before the server that listens at a path."""
    proxy = FaultProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
