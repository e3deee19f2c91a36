"""Chromium without a window, driven over its debugging pipe (the DevTools protocol), for pages that must hold at every width: the window
of a headless Chromium is never narrower than 500 pixels.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any

#: tests/run.sh installs it where it is missing.
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
#: A browser still open after this has hung, seconds.
LONGEST_S = 300


class Browser:
    """One browser, for use with `with`. It shows one document after another."""

    def __enter__(self) -> Browser:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (asked, ask), (answers, answer) = os.pipe(), os.pipe()
        arguments = [
            "timeout", str(LONGEST_S), str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe",
        ]  # fmt: skip
        # The browser reads from descriptor 3 and writes to 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{asked} 4>&{answer}', "bash", *arguments],
            pass_fds=(asked, answer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(asked)
        os.close(answer)
        self._ask, self._answers = open(ask, "wb"), open(answers, "rb")
        self._calls, self._session = 0, ""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        self._call("Runtime.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._ask.close()
        self._process.terminate()
        self._process.wait()
        self._answers.close()
        self._profile.cleanup()

    def _message(self) -> dict[str, Any]:
        text = b""
        while not text.endswith(b"\0"):
            byte = self._answers.read(1)
            if not byte:
                raise RuntimeError("the browser has ended")
            text += byte
        message: dict[str, Any] = json.loads(text[:-1])
        return message

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        call = {"id": self._calls, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        self._ask.write(json.dumps(call).encode() + b"\0")
        self._ask.flush()
        while (message := self._message()).get("id") != self._calls:
            self._events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def show(self, path: str, width: int = 1280, scheme: str = "light", *, scripts: bool = True, first: str = "") -> None:
        """Opens a document as a reader with this width and color scheme has it. The script `first` runs before its own."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        added = self._call("Page.addScriptToEvaluateOnNewDocument", source=first)["identifier"]
        self._events.clear()
        self._call("Page.navigate", url=f"file://{path}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._message())
        self._call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)

    def ask(self, script: str) -> Any:
        """What the body of an asynchronous function returns in the document. Raises AssertionError if it, or a script of the
        document, failed."""
        answer = self._call("Runtime.evaluate", expression=f"(async () => {{ {script} }})()", awaitPromise=True, returnByValue=True)
        thrown = [event["params"]["exceptionDetails"] for event in self._events if event.get("method") == "Runtime.exceptionThrown"]
        thrown += [answer["exceptionDetails"]] if "exceptionDetails" in answer else []
        if thrown:
            raise AssertionError([failure.get("exception", {}).get("description", failure["text"]) for failure in thrown])
        return answer["result"].get("value")

    def picture(self) -> bytes:
        """The whole document as PNG."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(answer["data"])
