import contextlib, io, json, linecache, os, sys


class Printed(io.TextIOBase):
    """Keeps the first part of what is printed."""

    limit = 65536

    def __init__(self):
        self.parts, self.length, self.left_out = [], 0, 0

    def writable(self):
        return True

    def write(self, text):
        kept = text[: max(0, self.limit - self.length)]
        if kept:
            self.parts.append(kept)
        self.length += len(kept)
        self.left_out += len(text) - len(kept)
        return len(text)

    def text(self):
        note = f"\n[{self.left_out} characters left out]" if self.left_out else ""
        return "".join(self.parts) + note


job = json.loads(sys.stdin.buffer.read())
sys.stdin = io.StringIO()
sys.path.insert(0, os.getcwd())
source = job["source"]
linecache.cache["<tool>"] = (len(source), None, source.splitlines(True), "<tool>")
space = {"__name__": "tool", **job["globals"]}
printed = Printed()
result = None
with contextlib.redirect_stdout(printed):
    exec(compile(source, "<tool>", "exec"), space)
    if space.get("result") is not None:
        result = space["result"]
    elif callable(space.get("run")):
        result = space["run"](job["globals"][job["argument"]])
shown = printed.text().encode("utf-8", "replace").decode()
answer = {"answered": result is not None, "result": result, "printed": shown}
try:
    text = json.dumps(answer, default=str, allow_nan=False)
    if "\\ud" in text:
        json.dumps(answer, default=str, ensure_ascii=False).encode()
except ValueError as error:
    sys.exit(f"its result cannot be written as JSON: {error}")
sys.stdout.write(job["mark"] + text + "\n")
sys.stdout.flush()
