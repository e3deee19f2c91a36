"""Calls every tool of `trainmon mcp` with the client of the official SDK, in a session and without one.

    python tests/support/mcp_client.py TRAINMON BEFORE.tmz AFTER.tmz PID TRACE.json ASKED

ASKED is the PID of a job that can be asked for a profile.
"""

import asyncio
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CallToolResult, TextContent

TOOLS = ["list", "diagnose", "profile", "explain", "doctor", "report", "compare"]
STATELESS = "2026-07-28"


#: The schema of each tool's result.
schemas: dict[str, dict[str, Any]] = {}


def undescribed(value: Any, schema: dict[str, Any], place: str) -> list[str]:
    """The keys of a result that its schema does not describe. The client itself has checked the types."""
    if isinstance(value, list):
        return [key for item in value for key in undescribed(item, schema.get("items", {}), f"{place}[]")]
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return []
    unknown = [f"{place}.{key}" for key in value if key not in properties]
    known = [(key, item) for key, item in value.items() if key in properties]
    return unknown + [key for name, item in known for key in undescribed(item, properties[name], f"{place}.{name}")]


async def call(session: ClientSession, tool: str, progress: ProgressFnT | None = None, **arguments: Any) -> CallToolResult:
    """The result of a call that must not fail."""
    result = await session.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error and text(result).strip(), (tool, result)
    missing = undescribed(structured(result), schemas[tool], tool)
    assert not missing, missing
    return result


def text(result: CallToolResult) -> str:
    """The text of a result."""
    first = result.content[0]
    assert isinstance(first, TextContent), result
    return first.text


def structured(result: CallToolResult) -> dict[str, Any]:
    """The object of a result."""
    value = result.structured_content
    assert isinstance(value, dict), result
    return value


async def check(session: ClientSession, before: str, after: str, pid: int, trace: str, asked: int) -> None:
    """Lists the tools and calls each of them."""
    tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS, tools
    for tool in tools:
        only_reads = tool.name != "profile"
        assert tool.annotations is not None and tool.annotations.read_only_hint == only_reads and tool.description, tool
        assert tool.output_schema and tool.output_schema["type"] == "object" and tool.output_schema["required"], tool
        schemas[tool.name] = tool.output_schema
    recorded = await call(session, "diagnose", replay=before)
    assert structured(recorded)["cause"] == "too-few-workers", recorded
    assert structured(recorded)["command"].startswith("⟦python "), recorded

    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        assert total == 2 and message and message.startswith(f"watching PID {pid}"), (progress, total, message)
        told.append(progress)

    live = await call(session, "diagnose", hear, pid=pid, duration_s=2)
    assert structured(live)["pid"] == pid and told, (live, told)
    explained = await call(session, "explain", cause="too-few-workers")
    assert structured(explained)["causes"][0]["cause"] == "too-few-workers", explained
    assert structured(await call(session, "explain", cause="chain"))["topics"], "no topic"
    checked = await call(session, "doctor", pid=pid)
    assert any(finding["what"] == "syscall" for finding in structured(checked)["findings"]), checked
    listed = await call(session, "list")
    assert isinstance(structured(listed)["processes"], list), listed
    report = await call(session, "report", file=before)
    assert "### Environment" in text(report), report
    assert structured(report)["verdict"]["cause"] == "too-few-workers", report
    compared = await call(session, "compare", before=before, after=after)
    assert structured(compared)["before"]["cause"] == "too-few-workers", compared
    judged = structured(await call(session, "diagnose", replay=trace))
    assert judged["profile"]["steps"] == 6 and judged["profile"]["kernels"][0]["count"] == 6, judged
    assert structured(await call(session, "report", file=trace))["verdict"]["profile"]["steps"] == 6
    changed = structured(await call(session, "compare", before=trace, after=trace))
    assert changed["result"] == "same" and changed["profile"]["per"] == "step", changed
    taken = structured(await call(session, "profile", pid=asked, allowed="yes", length_ms=100))
    assert taken["profile"]["source"] == "kineto" and taken["cause"] == "host-device-sync", taken
    unasked = await session.call_tool("profile", {"pid": asked, "allowed": "no"})
    assert unasked.is_error and "ask the user" in text(unasked), unasked
    wrong = await session.call_tool("diagnose", {})
    assert wrong.is_error and "pid" in text(wrong), wrong


async def main(program: str, before: str, after: str, pid: int, trace: str, asked: int) -> None:
    """Once in a session, once without."""
    server = StdioServerParameters(command=program, args=["mcp", "--no-stacks", "--nvml-lib", "/nonexistent"])
    for stateless in (False, True):
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            if stateless:
                found = await session.discover()
                assert STATELESS in found.supported_versions, found
            else:
                opened = await session.initialize()
                assert opened.server_info.name == "trainmon" and opened.instructions, opened
            await check(session, before, after, pid, trace, asked)
    print("2 clients called every tool")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6])))
