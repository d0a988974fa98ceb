"""A scripted MQTT client on paho-mqtt: commands come as JSON lines on stdin, answers and messages leave on stdout.

It is the outside witness of the house tests, so it shares no code with the node. Payloads cross as latin-1 text, one
character a byte, so that any bytes can be sent and seen. It ends when its stdin closes.
"""

import json
import socket
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

RECONNECT_MIN_S = 0.05
RECONNECT_MAX_S = 0.2
INFLIGHT_MAX = 500


class Driver:
    def __init__(self):
        self.out = threading.Lock()
        self.lock = threading.Lock()
        self.early = set()  # acknowledged before the sender had noted the id
        self.waiting = {}  # (kind, mid) -> the batch it belongs to
        self.filters = []
        self.client = None
        self.v5 = True

    def say(self, line):
        with self.out:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def expect(self, kind, mid, batch):
        with self.lock:
            if (kind, mid) in self.early:
                self.early.discard((kind, mid))
                batch["open"] -= 1
            else:
                self.waiting[(kind, mid)] = batch
            done = batch["sealed"] and batch["open"] == 0
        if done:
            self.say({"reply": batch["n"]})

    def seal(self, batch):
        with self.lock:
            batch["sealed"] = True
            done = batch["open"] == 0
        if done:
            self.say({"reply": batch["n"]})

    def acked(self, kind, mid):
        with self.lock:
            batch = self.waiting.pop((kind, mid), None)
            if batch is None:
                self.early.add((kind, mid))
                return
            batch["open"] -= 1
            done = batch["sealed"] and batch["open"] == 0
        if done:
            self.say({"reply": batch["n"]})

    def on_message(self, _client, _userdata, message):
        self.say({
            "topic": message.topic,
            "payload": message.payload.decode("latin-1"),
            "qos": message.qos,
            "retain": bool(message.retain),
            "dup": bool(message.dup),
        })

    def on_connect(self, client, _userdata, flags, code, _properties=None):
        present = flags.get("session present", 0) == 1
        if self.filters and not present:
            for topic, options in self.filters:
                self.subscribe_now(topic, options)
        self.say({"up": True, "present": present, "code": int(getattr(code, "value", code))})

    def on_disconnect(self, _client, _userdata, code, _properties=None):
        self.say({"down": int(getattr(code, "value", code) or 0)})

    def on_socket_open(self, _client, _userdata, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connect(self, order):
        self.v5 = order.get("v", 5) == 5
        kind = mqtt.MQTTv5 if self.v5 else mqtt.MQTTv311
        if self.v5:
            self.client = mqtt.Client(order["id"], protocol=kind)
        else:
            self.client = mqtt.Client(order["id"], clean_session=order.get("clean", True), protocol=kind)
        client = self.client
        client.on_message = self.on_message
        client.on_connect = self.on_connect
        client.on_disconnect = self.on_disconnect
        client.on_socket_open = self.on_socket_open
        client.on_publish = lambda _c, _u, mid: self.acked("pub", mid)
        if self.v5:
            client.on_subscribe = lambda _c, _u, mid, _codes, _props: self.acked("sub", mid)
        else:
            client.on_subscribe = lambda _c, _u, mid, _codes: self.acked("sub", mid)
        client.max_inflight_messages_set(INFLIGHT_MAX)
        client.max_queued_messages_set(0)
        client.reconnect_delay_set(RECONNECT_MIN_S, RECONNECT_MAX_S)
        if order.get("user"):
            client.username_pw_set(order["user"], order.get("pass"))
        if self.v5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = order.get("expiry", 3600)
            first = True if order.get("clean", True) else mqtt.MQTT_CLEAN_START_FIRST_ONLY
            clean = mqtt.MQTT_CLEAN_START_FIRST_ONLY if first is True else False
            client.connect(order["host"], order["port"], 60, clean_start=clean, properties=properties)
        else:
            client.connect(order["host"], order["port"], 60)
        client.loop_start()

    def subscribe_now(self, topic, options):
        if self.v5:
            shape = SubscribeOptions(
                qos=options["qos"], retainAsPublished=options["rap"], retainHandling=options["rh"])
            return self.client.subscribe(topic, options=shape)
        return self.client.subscribe(topic, options["qos"])

    def subscribe(self, order):
        batch = {"n": order["n"], "open": 1, "sealed": True}
        options = {"qos": order.get("qos", 2), "rap": order.get("rap", True), "rh": order.get("rh", 0)}
        self.filters.append((order["topic"], options))
        _code, mid = self.subscribe_now(order["topic"], options)
        self.expect("sub", mid, batch)

    def publish(self, order):
        messages = order["messages"]
        batch = {"n": order["n"], "open": len(messages), "sealed": False}
        for message in messages:
            properties = None
            if self.v5:
                properties = Properties(PacketTypes.PUBLISH)
                if message.get("expiry") is not None:
                    properties.MessageExpiryInterval = message["expiry"]
                if message.get("respond") is not None:
                    properties.ResponseTopic = message["respond"]
            info = self.client.publish(
                message["topic"], message["payload"].encode("latin-1"),
                qos=message.get("qos", 1), retain=message.get("retain", False), properties=properties)
            self.expect("pub", info.mid, batch)
        self.seal(batch)

    def run(self):
        for line in sys.stdin:
            order = json.loads(line)
            name = order["op"]
            try:
                if name == "connect":
                    self.connect(order)
                    self.say({"reply": order["n"]})
                elif name == "subscribe":
                    self.subscribe(order)
                elif name == "publish":
                    self.publish(order)
                elif name == "disconnect":
                    self.client.disconnect()
                    self.client.loop_stop()
                    self.say({"reply": order["n"]})
            except Exception as fault:  # the Rust side shows it and fails the test
                self.say({"reply": order["n"], "fault": repr(fault)})


Driver().run()
