"""A server that answers from many threads with one compiled model.

    python examples/threaded_server.py

Each request is a line of numbers over HTTP; batches differ in size. `torch.compile` is called once, by the main
thread, and every thread calls what it returned.
"""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import torch
from torch import nn

BACKEND = "cuesta"


def make_server(model: nn.Module) -> ThreadingHTTPServer:
    """A server on a free port of this machine: POST [[numbers of a row], …], and get the model's rows back."""
    compiled = torch.compile(model, backend=BACKEND, dynamic=True)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with torch.inference_mode():
                answer = json.dumps(compiled(torch.tensor(rows)).tolist()).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Says nothing of each request."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def ask(port: int, rows: torch.Tensor) -> torch.Tensor:
    """The server's answer to a batch."""
    body = json.dumps(rows.tolist()).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", body) as answer:
        return torch.tensor(json.loads(answer.read()))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4)).eval()
    batches = [torch.randn(2 + n % 3, 16) for n in range(24)]
    with make_server(model) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda rows: ask(server.server_port, rows), batches))
        server.shutdown()
    with torch.no_grad():
        worst = max(float((a - model(rows)).abs().max()) for a, rows in zip(answers, batches, strict=True))
    print(f"{len(batches)} requests from 8 threads; largest difference from eager {worst:.1e}")
    assert worst < 1e-5


if __name__ == "__main__":
    main()
