# SPDX-License-Identifier: MIT
"""Checks messages against the protocol's own meta model (metaModel.json), unknown fields included.

Plain walker: every type kind of the meta model is a branch of `check`. Problems are returned as text with a path.
"""
import json
import re

BASE = {
    "string": lambda v: isinstance(v, str), "DocumentUri": lambda v: isinstance(v, str), "URI": lambda v: isinstance(v, str),
    "RegExp": lambda v: isinstance(v, str), "boolean": lambda v: isinstance(v, bool), "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool) and -2**31 <= v < 2**31,
    "uinteger": lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**31,
    "decimal": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
ANY = {"LSPAny", "LSPObject", "LSPArray"}
PROGRESS = {"begin": "WorkDoneProgressBegin", "report": "WorkDoneProgressReport", "end": "WorkDoneProgressEnd"}


class MetaModel:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            model = json.load(f)
        self.structures = {s["name"]: s for s in model["structures"]}
        self.aliases = {a["name"]: a["type"] for a in model["typeAliases"]}
        self.enums = {e["name"]: e for e in model["enumerations"]}
        self.requests = {r["method"]: r for r in model["requests"]}
        self.notifications = {n["method"]: n for n in model["notifications"]}

    def properties(self, name):
        s, out = self.structures[name], {}
        for parent in s.get("extends", []) + s.get("mixins", []):
            out.update(self.properties(parent["name"]))
        out.update({p["name"]: p for p in s["properties"]})
        return out

    def check(self, value, kind, path="$"):
        """The first problem of value as a text, or None."""
        return getattr(self, "check_" + kind["kind"])(value, kind, path)

    def check_base(self, value, kind, path):
        return None if BASE[kind["name"]](value) else f"{path}: {value!r:.60} is no {kind['name']}"

    def check_object(self, value, properties, name, path):
        if not isinstance(value, dict):
            return f"{path}: {value!r:.60} is no {name}"
        for key in value:
            if key not in properties:
                return f"{path}.{key}: unknown field of {name}"
        for key, p in properties.items():
            if key not in value:
                if not p.get("optional"):
                    return f"{path}.{key}: missing in {name}"
                continue
            problem = self.check(value[key], p["type"], f"{path}.{key}")
            if problem:
                return problem
        return None

    def check_reference(self, value, kind, path):
        name = kind["name"]
        if name in ANY:
            return None
        if name in self.aliases:
            return self.check(value, self.aliases[name], path)
        if name in self.enums:
            e = self.enums[name]
            if e.get("supportsCustomValues"):
                return self.check(value, e["type"], path)
            return None if value in [v["value"] for v in e["values"]] else f"{path}: {value!r:.60} is no {name}"
        return self.check_object(value, self.properties(name), name, path)

    def check_array(self, value, kind, path):
        if not isinstance(value, list):
            return f"{path}: {value!r:.60} is no array"
        return next((p for i, v in enumerate(value) if (p := self.check(v, kind["element"], f"{path}[{i}]"))), None)

    def check_map(self, value, kind, path):
        if not isinstance(value, dict):
            return f"{path}: {value!r:.60} is no map"
        return next((p for k, v in value.items() if (p := self.check(v, kind["value"], f"{path}.{k}"))), None)

    def check_or(self, value, kind, path):
        problems = [self.check(value, item, path) for item in kind["items"]]
        return None if None in problems else " / ".join(problems)

    def check_and(self, value, kind, path):
        names = [i["name"] for i in kind["items"]]
        properties = {k: p for n in names for k, p in self.properties(n).items()}
        return self.check_object(value, properties, " & ".join(names), path)

    def check_tuple(self, value, kind, path):
        if not isinstance(value, list) or len(value) != len(kind["items"]):
            return f"{path}: {value!r:.60} is no tuple of {len(kind['items'])}"
        return next((p for i, (v, k) in enumerate(zip(value, kind["items"])) if (p := self.check(v, k, f"{path}[{i}]"))), None)

    def check_literal(self, value, kind, path):
        return self.check_object(value, {p["name"]: p for p in kind["value"]["properties"]}, "literal", path)

    def check_stringLiteral(self, value, kind, path):
        return None if value == kind["value"] else f"{path}: {value!r:.60} is not {kind['value']!r}"

    check_integerLiteral = check_booleanLiteral = check_stringLiteral

    # messages ------------------------------------------------------------------------------------

    def check_params(self, message, table):
        method = message["method"]
        if method not in table:
            return f"{method}: unknown method"
        if table[method].get("messageDirection") == "clientToServer":
            return f"{method}: only clients send this"
        kind, params = table[method].get("params"), message.get("params")
        problem = self.check(params, kind, method) if kind else None if params is None else f"{method}: takes no params"
        value = params.get("value") if method == "$/progress" and isinstance(params, dict) else None
        if not problem and isinstance(value, dict) and value.get("kind") in PROGRESS:
            problem = self.check(value, {"kind": "reference", "name": PROGRESS[value["kind"]]}, method)
        return problem

    def check_message(self, message, method_of):
        """A message from the server; method_of(id) gives the method of the request it answers, or None."""
        if message.get("jsonrpc") != "2.0":
            return "jsonrpc is not 2.0"
        keys = set(message) - {"jsonrpc"}
        if keys == {"method", "params", "id"} or keys == {"method", "id"}:
            return self.check_params(message, self.requests)
        if keys == {"method", "params"} or keys == {"method"}:
            return self.check_params(message, self.notifications)
        if keys == {"id", "error"}:
            e = message["error"]
            good = isinstance(e, dict) and set(e) <= {"code", "message", "data"} and BASE["integer"](e.get("code"))
            return None if good and isinstance(e.get("message"), str) else f"error response: {e!r:.80}"
        if keys == {"id", "result"}:
            method = method_of(message["id"])
            if method not in self.requests:
                return f"a result for {method}"
            return self.check(message["result"], self.requests[method]["result"], method)
        return f"fields {sorted(keys)}"
