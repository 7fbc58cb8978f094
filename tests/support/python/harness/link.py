"""A broker's end of a link, by hand: it says what a test tells it to, right or wrong."""
import hashlib
import hmac
import os
import socket
import struct

from sandbroker.agent.v1 import link_pb2

OPEN, DATA, EVENT, CREDIT, ACK, END, RESET = range(1, 8)
SUBPROTOCOL = "sandbroker.link.1"
BINARY, TEXT = 2, 1
BOUND = 20


def frame(stream, kind, payload=b"", reserved=0):
    return struct.pack("<IB", stream, kind) + reserved.to_bytes(3, "little") + payload


def data_frame(stream, offset, data, fd=0):
    return frame(stream, DATA, struct.pack("<QB", offset, fd) + data)


def proof(side, secret, agent_nonce, broker_nonce, boot_id):
    text = b""
    for field in (f"sandbroker.link.1 {side}".encode(), agent_nonce, broker_nonce, boot_id):
        text += struct.pack("<Q", len(field)) + field
    return hmac.digest(secret, text, hashlib.sha256)


class Closed(Exception):
    """The peer ended the connection."""


class RawPeer:
    """A connection to an agent's socket and the WebSocket framing over it."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(BOUND)
        self.socket.connect(str(path))
        self._buffer = b""

    def close(self):
        self.socket.close()

    def send_raw(self, data):
        self.socket.sendall(data)

    def upgrade(self, subprotocol=SUBPROTOCOL):
        lines = ["GET / HTTP/1.1", "Host: agent", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Version: 13"]
        if subprotocol:
            lines.append(f"Sec-WebSocket-Protocol: {subprotocol}")
        self.send_raw("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._take(1)
        return head.decode()

    def send(self, message, opcode=BINARY):
        size = len(message)
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 65536:
            length = bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            length = bytes([0x80 | 127]) + struct.pack(">Q", size)
        # A mask of zeros leaves the message as it is.
        self.send_raw(bytes([0x80 | opcode]) + length + b"\0\0\0\0" + message)

    def receive(self):
        """The next binary message; Closed when the peer is done."""
        while True:
            first, second = self._take(2)
            size = second & 0x7f
            if size == 126:
                size, = struct.unpack(">H", self._take(2))
            elif size == 127:
                size, = struct.unpack(">Q", self._take(8))
            message = self._take(size)
            if first & 0x0f == 8:
                raise Closed(message)
            if first & 0x0f == BINARY:
                return message

    def _take(self, size):
        while len(self._buffer) < size:
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionError as error:
                raise Closed(error) from error
            if not more:
                raise Closed(b"")
            self._buffer += more
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def wait_closed(self):
        """Reads until the peer ends the connection; answers the RESET it sent before, if any."""
        reset = None
        try:
            while True:
                message = self.receive()
                if message[4] == RESET and message[:4] == b"\0\0\0\0":
                    reset = link_pb2.Reset.FromString(message[8:])
        except Closed:
            return reset


class Link(RawPeer):
    """A link whose handshake a test can spoil."""

    def control(self, **kind):
        self.send(frame(0, EVENT, link_pb2.Control(**kind).SerializeToString()))

    def receive_control(self):
        message = self.receive()
        assert message[:5] == struct.pack("<IB", 0, EVENT), message[:8]
        return link_pb2.Control.FromString(message[8:])

    def hello(self):
        assert " 101 " in self.upgrade()
        self.agent_hello = self.receive_control().agent_hello
        assert len(self.agent_hello.nonce) == 32 and self.agent_hello.boot_id
        return self.agent_hello

    def broker_hello(self, secret, nonce=None, **fields):
        self.nonce = os.urandom(32) if nonce is None else nonce
        fields.setdefault("version", 1)
        fields.setdefault("heartbeat_interval_ns", 10 ** 10)
        fields.setdefault("proof", proof("broker", secret, self.agent_hello.nonce, self.nonce,
                                         self.agent_hello.boot_id.encode()))
        self.control(broker_hello=link_pb2.BrokerHello(nonce=self.nonce, **fields))

    def handshake(self, secret):
        self.hello()
        self.broker_hello(secret)
        answer = self.receive_control().agent_proof
        assert answer.proof == proof("agent", secret, self.agent_hello.nonce, self.nonce,
                                     self.agent_hello.boot_id.encode())
        return self

    def start(self, stream, argv, execution_id, credit=1 << 20, **fields):
        start = link_pb2.Start(
            execution_id=execution_id, argv=[arg.encode() for arg in argv], spec_hash=bytes(32),
            boot_id=self.agent_hello.boot_id,
            reader=link_pb2.Reader(holder="test", attempt=1, acks=True),
            writer=link_pb2.Writer(holder="test", attempt=1), **fields)
        self.send(frame(stream, OPEN, link_pb2.Open(start=start).SerializeToString()))
        self.send(frame(stream, CREDIT, struct.pack("<Q", credit)))

    def stream_frame(self, stream):
        """The next frame of the stream, as (kind, payload)."""
        while True:
            message = self.receive()
            if struct.unpack("<I", message[:4])[0] == stream:
                return message[4], message[8:]

    def run(self, stream, argv, execution_id):
        """Runs a program to its end; answers (stdout, Ended)."""
        self.start(stream, argv, execution_id)
        out = b""
        while True:
            kind, payload = self.stream_frame(stream)
            if kind == DATA:
                out += payload[9:]
            elif kind == END:
                return out, link_pb2.Ended.FromString(payload)
            elif kind == RESET:
                raise AssertionError(link_pb2.Reset.FromString(payload))
