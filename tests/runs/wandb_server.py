"""A W&B server that says yes to everything until it is cut off."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.cut.is_set():
            self.server.cut_over.wait()
        body = json.dumps({"data": {"createRunFiles": {"files": []}}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *arguments):
        pass


def start_server():
    """Start the server; after ``server.cut.set()`` it takes requests and never answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.cut, server.cut_over = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
