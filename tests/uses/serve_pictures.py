import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

import tally

CLIENT = """
import sys, threading, urllib.request
def ask():
    while True:
        urllib.request.urlopen(sys.argv[1]).read()
for _ in range(12):
    threading.Thread(target=ask).start()
"""


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(64, 10)

    def forward(self, picture):
        return self.head(self.features(picture).flatten(1)).softmax(-1)


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        picture = torch.rand(1, 3, 224, 224)
        with torch.inference_mode():
            scores = classifier(picture)[0].tolist()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(scores).encode())
        tally.units()

    def log_message(self, *words):
        pass


def main(port=0):
    server = ThreadingHTTPServer(("127.0.0.1", port), Api)
    load = subprocess.Popen([sys.executable, "-c", CLIENT, f"http://127.0.0.1:{server.server_port}"])
    try:
        server.serve_forever()
    finally:
        load.kill()


classifier = Classifier().eval()
main()
