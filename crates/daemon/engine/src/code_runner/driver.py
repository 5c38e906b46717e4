import contextlib, io, json, linecache, os, sys


class Printed(io.TextIOBase):
    """Passes the first part of what is printed on at once, so that it is there however the program ends."""

    def __init__(self, out, limit):
        out.reconfigure(encoding="utf-8", errors="backslashreplace")
        self.out, self.limit, self.length, self.left_out = out, limit, 0, 0

    def writable(self):
        return True

    def write(self, text):
        kept = text[: max(0, self.limit - self.length)]
        if kept:
            self.out.write(kept)
            self.out.flush()
        self.length += len(kept)
        self.left_out += len(text) - len(kept)
        return len(text)

    def finish(self):
        if self.left_out:
            self.out.write(f"\n[{self.left_out} characters left out]")
            self.out.flush()


def answer_of(result, most, remedy):
    answer = {"answered": result is not None, "result": result}
    try:
        text = json.dumps(answer, default=str, allow_nan=False)
        if "\\ud" in text:
            json.dumps(answer, default=str, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return json.dumps({"problem": f"the result is not JSON: {error}"})
    if len(text) > most:
        problem = f"the program ran to its end, but the result has more than {most} bytes as JSON"
        return json.dumps({"problem": f"{problem}; its side effects remain; {remedy}"})
    return text


job = json.loads(sys.stdin.buffer.read())
sys.stdin = io.StringIO()
sys.path.insert(0, os.getcwd())
source = job["source"]
linecache.cache["<tool>"] = (len(source), None, source.splitlines(True), "<tool>")
space = {"__name__": "tool", **job["globals"]}
printed = Printed(sys.stdout, job["most_printed"])
result = None
try:
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<tool>", "exec"), space)
        if space.get("result") is not None:
            result = space["result"]
        elif callable(space.get("run")):
            result = space["run"](job["globals"][job["argument"]])
except SystemExit as end:
    if end.code not in (None, 0):
        raise
    result = space.get("result")
finally:
    printed.finish()
printed.out.write(job["mark"] + answer_of(result, job["most"], job["remedy"]) + "\n")
printed.out.flush()
