#!/usr/bin/python3
# Takes an agent's place inside a sandbox and misbehaves as MODE says. It stands alone: the sandbox
# holds nothing of the tests. Started with the descriptors a real agent gets.
import base64
import hashlib
import hmac
import os
import re
import socket
import struct
import sys

MODE = "@MODE@"
BOOT_ID = b"0123456789abcdef0123456789abcdef"
NONCE = bytes(range(32))


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(stream, kind, payload=b""):
    return struct.pack("<IB", stream, kind) + b"\0\0\0" + payload


class Peer:
    def __init__(self, connection):
        self.connection = connection
        self.buffer = b""

    def take(self, size):
        while len(self.buffer) < size:
            more = self.connection.recv(65536)
            if not more:
                raise SystemExit(0)
            self.buffer += more
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def upgrade(self):
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.take(1)
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head).group(1)
        answer = base64.b64encode(
            hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        self.connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: sandbroker.link.1\r\nSec-WebSocket-Accept: " + answer +
            b"\r\n\r\n")

    def send(self, message):
        size = len(message)
        if size < 126:
            length = bytes([size])
        elif size < 65536:
            length = bytes([126]) + struct.pack(">H", size)
        else:
            length = bytes([127]) + struct.pack(">Q", size)
        self.connection.sendall(b"\x82" + length + message)

    def receive(self):
        _, second = self.take(2)
        size = second & 0x7F
        if size == 126:
            size, = struct.unpack(">H", self.take(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.take(8))
        mask = self.take(4)
        return bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.take(size)))


def hello(version):
    limits = field(1, 4096) + field(2, 1 << 28) + field(3, 65536) + field(4, 65536)
    agent_hello = (field(1, version) + field(2, version) + field(3, BOOT_ID) + field(4, NONCE) +
                   field(6, limits))
    return frame(0, 3, field(1, agent_hello))


def agent_proof(secret, broker_nonce):
    text = b""
    for part in (b"sandbroker.link.1 agent", NONCE, broker_nonce, BOOT_ID):
        text += struct.pack("<Q", len(part)) + part
    return hmac.digest(secret, text, hashlib.sha256)


def broker_nonce_of(message):
    """Field 2 of Control.broker_hello."""
    at = message.index(b"\x12\x20")  # tag of nonce, 32 bytes
    return message[at + 2:at + 34]


def misbehave_early(peer):
    """Before or within the handshake. True when the mode was one of these."""
    if MODE == "garbage":
        peer.connection.sendall(os.urandom(100_000))
    elif MODE == "no_upgrade":
        peer.connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    elif MODE == "silent":
        pass
    else:
        peer.upgrade()
        if MODE == "oversized":
            peer.send(frame(0, 3, b"x" * (64 << 20)))
        elif MODE == "half_handshake":
            peer.send(hello(1))
        elif MODE == "other_version":
            peer.send(hello(99))
        elif MODE == "early_frame":
            peer.send(frame(1, 6))
        elif MODE == "endless_header":
            peer.connection.sendall(b"\x82\xff" + b"\xff" * 8)
        else:
            return False
    return True


def misbehave_late(peer, stream):
    """After the handshake; `stream` was just opened by the broker."""
    ready = field(1, field(1, b"x") + field(2, BOOT_ID) + field(3, 1))
    peer.send(frame(stream, 3, ready))
    if MODE == "credit_overrun":
        for number in range(64):
            peer.send(frame(stream, 2, struct.pack("<QB", number << 18, 1) + bytes(1 << 18)))
    elif MODE == "unknown_kind":
        peer.send(frame(stream, 99))
    elif MODE == "bad_proto":
        peer.send(frame(stream, 3, b"\xff" * 100))
    elif MODE == "never_opened":
        peer.send(frame(stream + 1000, 3, ready))
    elif MODE == "cut_data":
        peer.send(frame(stream, 2, b"1234"))
    elif MODE == "hole":
        peer.send(frame(stream, 2, struct.pack("<QB", 1 << 40, 1) + b"x"))
    elif MODE == "wrong_side":
        peer.send(frame(stream, 1, b""))
    elif MODE == "bad_fd":
        peer.send(frame(stream, 2, struct.pack("<QB", 0, 77) + b"x"))
    elif MODE == "two_ends":
        end = field(1, b"") + field(21, 0) + field(22, 1)
        peer.send(frame(stream, 6, end))
        peer.send(frame(stream, 6, end))
    elif MODE == "mute":
        pass


def serve(connection, secret):
    peer = Peer(connection)
    if misbehave_early(peer):
        while True:
            peer.take(1)
    peer.send(hello(1))
    nonce = broker_nonce_of(peer.receive())
    answer = bytes(32) if MODE == "wrong_proof" else agent_proof(secret, nonce)
    peer.send(frame(0, 3, field(3, field(1, answer))))
    while True:
        message = peer.receive()
        if message[4] == 1:
            misbehave_late(peer, struct.unpack("<I", message[:4])[0])


def main():
    if sys.argv[1:] == ["--version"]:
        print("sandbroker-agent hostile")
        return
    with os.fdopen(4, "rb") as file:
        secret = file.read()
    listener = socket.socket(fileno=3)
    listener.listen(8)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            try:
                serve(connection, secret)
            finally:
                os._exit(0)
        connection.close()


main()
