"""A TCP server that reads JSON behind its length in four bytes and sends it back the same way; prints its port."""

from __future__ import annotations

import asyncio
import contextlib
import json


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one connection until it ends."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            data = json.dumps(json.loads(await reader.readexactly(size))).encode()
            writer.write(len(data).to_bytes(4, "big") + data)
    writer.close()


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
