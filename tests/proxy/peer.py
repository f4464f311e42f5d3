#!/usr/bin/env python3
"""peer.py: both ends of connections for the tests of the proxy.

peer.py echo PORT    answers with what it was sent; says open, and at the end
                     of each connection "end N" or "reset N", N bytes read
peer.py there PORT   sends stdin there, and says at the end what came back:
                     stdout, then "end" or "reset" on stderr
peer.py fill PORT    sends for ever, and takes nothing
"""
import os
import select
import socket
import sys
import threading


def answer(conn):
    count, how = 0, "end"
    try:
        while data := conn.recv(65536):
            count += len(data)
            conn.sendall(data)
    except ConnectionError:
        how = "reset"
    print(how, count, flush=True)
    conn.close()


def echo(port):
    server = socket.create_server(("127.0.0.1", port))
    while True:
        conn, _ = server.accept()
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print("open", flush=True)
        threading.Thread(target=answer, args=(conn,), daemon=True).start()


def take(conn):
    """False at the end."""
    data = conn.recv(65536)
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
    return data != b""


def exchange(conn):
    """One thread: of two, either may be told of a reset, and only one."""
    data, more = b"", True
    while True:
        readable, writable, _ = select.select(
            [conn, 0] if more and not data else [conn],
            [conn] if data else [], [])
        if conn in readable and not take(conn):
            return
        if writable:
            data = data[conn.send(data, socket.MSG_DONTWAIT):]
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                more = False
                conn.shutdown(socket.SHUT_WR)


def there(port):
    how = "end"
    try:
        exchange(socket.create_connection(("127.0.0.1", port)))
    except ConnectionResetError:
        how = "reset"
    print(how, file=sys.stderr)


def fill(port):
    conn = socket.create_connection(("127.0.0.1", port))
    while True:
        conn.sendall(bytes(65536))


{"echo": echo, "there": there, "fill": fill}[sys.argv[1]](int(sys.argv[2]))
