"""A receiver of webhooks: python3 receiver.py, with the secret in WEBHOOK_SECRET."""
import base64
import hashlib
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

TOLERANCE = 300
processed = set()  # a real receiver stores the ids with its effect


def verify(secret, headers, body):
    """Reports whether the request has a signature of the secret, and is not old."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    sent = headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    content = f"{headers.get('webhook-id', '')}.{sent}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
    # two while the secret rotates
    return any(hmac.compare_digest(got.encode(), want) for got in headers.get("webhook-signature", "").split())


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("content-length", "0")), 2 << 20))
        valid = verify(os.environ["WEBHOOK_SECRET"], self.headers, body)
        self.send_response(204 if valid else 401)
        self.end_headers()
        if valid and self.headers["webhook-id"] not in processed:
            processed.add(self.headers["webhook-id"])
            print(body.decode(), flush=True)

    def log_message(self, *args):
        pass


HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
