"""A notebook's page in little: it loads widgets.js as anywidget does, and its kernel is this very Python."""

import base64
import json
from types import SimpleNamespace

from headwater.show import widgets

ADDRESS = "http://notebook.test/"
PAGE = """<!doctype html><html><head><meta charset="utf-8"><link rel="icon" href="data:,">
<link rel="stylesheet" href="widgets.css"></head><body><div id="place"></div>
<script type="module">
import widget from "./widgets.js";
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
const revived = (value) =>
  Array.isArray(value) ? value.map(revived)
  : value && typeof value === "object"
    ? ("base64" in value ? bytes(value.base64) : Object.fromEntries(Object.entries(value).map(([name, each]) => [name, revived(each)])))
  : value;
const state = revived(await (await fetch("state.json")).json());
const ears = {};
const model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; (ears[`change:${name}`] ?? []).forEach((ear) => ear()); },
  save_changes() {},
  on: (event, ear) => (ears[event] ??= []).push(ear),
  off: (event, ear) => (ears[event] = (ears[event] ?? []).filter((each) => each !== ear)),
  send: (content) => window.toKernel(JSON.stringify(content)).then((replies) => replies.forEach(
    ([reply, buffers]) => (ears["msg:custom"] ?? []).forEach((ear) => ear(reply, buffers.map(bytes))))),
};
window.model = model;
window.ears = ears;
window.end = widget.render({ model, el: document.getElementById("place") });
</script></body></html>"""


class Kernel:
    """The Python side of one widget: replies exactly as the real one does."""

    def __init__(self, drawing, language="auto", theme="auto"):
        self.drawing, self.heard = drawing, []
        self.state = {"kind": drawing.kind, "data": widgets.finite(drawing.data), "language": language, "theme": theme}

    def reply(self, text):
        sent = []

        def send(content, buffers=()):
            sent.append((json.loads(json.dumps(content)), [base64.b64encode(each).decode() for each in buffers]))

        content = json.loads(text)
        self.heard.append(content["request"])
        widgets._reply(SimpleNamespace(send=send), content, self.drawing.answer)
        return sent


def open_notebook(context, kernel):
    """A tab with the widget; everything it asks of anybody is written down."""
    tab = context.new_page()
    asked = []

    def serve(route):
        name = route.request.url.removeprefix(ADDRESS)
        if name == "":
            route.fulfill(body=PAGE, content_type="text/html")
        elif name == "state.json":
            body = json.dumps(kernel.state, allow_nan=False, default=lambda value: {"base64": base64.b64encode(value).decode()})
            route.fulfill(body=body, content_type="application/json")
        else:
            kind = "text/javascript" if name.endswith(".js") else "text/css"
            route.fulfill(body=(widgets.PAGE / name).read_text(), content_type=kind)

    tab.on("request", lambda request: asked.append(request.url))
    tab.route("**/*", lambda route: serve(route) if route.request.url.startswith(ADDRESS) else route.abort())
    tab.expose_function("toKernel", kernel.reply)
    tab.goto(ADDRESS)
    tab.locator(".headwater-widget").wait_for()
    return tab, asked
