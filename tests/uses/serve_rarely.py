import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

import tally

CLIENT = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(urllib.request.Request(sys.argv[1], data=b'[1, 2, 3, 4]')).read()
    time.sleep(0.5)
"""

model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).eval()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        numbers = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.inference_mode():
            answer = model(torch.tensor(numbers, dtype=torch.float32)).tolist()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
        tally.units()

    def log_message(self, *words):
        pass


with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    client = subprocess.Popen([sys.executable, "-c", CLIENT, f"http://127.0.0.1:{server.server_port}"])
    server.serve_forever()
