"""A tool server for tests. Its first argument says how it misbehaves; every line that it writes to
its standard output is a message of the protocol, unless that is the misbehaviour."""

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
OUT = sys.stdout.buffer
COUNT = 0
# Text that only a model reads.
TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "\U000e007f"
BLOB = "iVBORw0KGgoAAAANSUhEUgAAAAUA" * 50_000
# Results by the names of the tools that answer them.
ODD = {
    "empty": {"content": []},
    "blank": {"content": [{"type": "text", "text": ""}]},
    "unknown": {"content": [{"type": "hologram", "data": 3}]},
    "structured": {"structuredContent": {"n": 1}},
    "alone": {"content": "text alone"},
    "nothing": {},
    "image": {"content": [{"type": "image", "data": BLOB, "mimeType": "image/png"}]},
    "blob": {"content": [{"type": "text", "text": BLOB}]},
    "structured_blob": {"content": [], "structuredContent": {"picture": BLOB, "width": 5}},
    "silent_error": {"isError": True, "content": []},
    "structured_error": {"isError": True, "content": [], "structuredContent": {"reason": "out of paper"}},
    "picture_error": {"isError": True, "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
}


def send(message):
    OUT.write(json.dumps(message).encode() + b"\n")
    OUT.flush()


def tool(name, **more):
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **more}


def tools():
    if MODE == "lies":
        return [
            tool("good"),
            tool("good"),
            tool("two words"),
            {"name": "bad", "inputSchema": {"type": "array"}},
            tool("dots.in/it"),
            tool("x" * 100),
            7,
        ]
    if MODE == "tags":
        schema = {"type": "object", "properties": {"word": {"type": "string", "description": "w" + TAGS}}}
        return [{"name": "tagged", "title": "T" + TAGS, "description": "d" + TAGS, "inputSchema": schema}, tool("ta" + TAGS)]
    if MODE == "odd":
        return [tool(name) for name in ODD]
    names = ["echo", "hang", "die", "flood", "fail", "where", "env", "grow"]
    more = ["grown"] if COUNT else []
    return [tool("peek", annotations={"readOnlyHint": True})] + [tool(name) for name in names + more]


def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def say(request, text, **more):
    answer(request, {"content": [{"type": "text", "text": text}], **more})


def call(request):
    global COUNT
    name = request["params"]["name"]
    arguments = request["params"].get("arguments") or {}
    if name == "hang":
        return
    if name == "die":
        sys.stderr.write("dying as I was told\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "flood":
        block = b"x" * (1 << 20)
        while True:
            OUT.write(block)
    if MODE == "odd":
        answer(request, ODD[name])
    elif name == "tagged":
        say(request, "said" + TAGS, structuredContent={"seen" + TAGS: "it" + TAGS})
    elif name == "fail":
        say(request, "it is not possible", isError=True)
    elif name == "where":
        found = {"home": os.environ.get("HOME"), "directory": os.getcwd(), "process": os.getpid()}
        for path in arguments.get("word", "").split(":"):
            try:
                with open(path, "rb") as file:
                    found[path] = file.read(16).decode(errors="replace")
            except OSError as error:
                found[path] = type(error).__name__
        say(request, json.dumps(found), structuredContent=found)
    elif name == "env":
        say(request, os.environ.get(arguments.get("word", ""), "(none)"))
    elif name == "grow":
        COUNT += 1
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        say(request, "grown")
    else:
        say(request, f"{name}: {arguments.get('word', '')}")


def main():
    if MODE == "complains":
        sys.stderr.write(f"the token is {os.environ.get('TOKEN')}, and it is wrong\n")
        sys.exit(7)
    if MODE == "silent":
        time.sleep(3600)
    if MODE == "noise":
        while True:
            OUT.write(b"this is no message\n" * 1000)
    if MODE == "family":
        # A child that minds nothing and would stay.
        subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 3600; done"])
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            if MODE == "dies":
                sys.exit(9)
            announced = {"tools": {"listChanged": True}}
            version = request["params"]["protocolVersion"]
            info = {"name": "fake", "version": "1.2.3"}
            answer(request, {"protocolVersion": version, "capabilities": announced, "serverInfo": info})
        elif method == "tools/list" and MODE == "repeats":
            words = f"the token {os.environ.get('TOKEN')} may not list tools"
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32001, "message": words}})
        elif method == "tools/list":
            answer(request, {"tools": tools()})
        elif method == "tools/call":
            call(request)
        elif method == "ping" and MODE != "deaf":
            answer(request, {})
        elif "id" in request and method not in ("ping",):
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "unknown"}})


main()
