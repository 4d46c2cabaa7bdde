"""A gRPC server: lasthop.Echo/Call sends back the message that it gets, lasthop.Echo/Calls says how many calls there were."""

import argparse
import concurrent.futures
import itertools
import pathlib
import signal

import grpc
from google.protobuf.wrappers_pb2 import BytesValue


def handlers():
    """What protoc would generate for the two methods."""
    calls = itertools.count()
    seen = [0]

    def call(request, context):
        seen[0] = next(calls) + 1
        return request

    def count(request, context):
        return BytesValue(value=str(seen[0]).encode())

    def unary(behaviour):
        return grpc.unary_unary_rpc_method_handler(behaviour, BytesValue.FromString, BytesValue.SerializeToString)

    return grpc.method_handlers_generic_handler("lasthop.Echo", {"Call": unary(call), "Calls": unary(count)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address", help="unix:PATH or HOST:PORT")
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    pool = concurrent.futures.ThreadPoolExecutor(max_workers=arguments.threads)
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(pool, options=options)
    server.add_generic_rpc_handlers((handlers(),))
    if arguments.tls:
        certificate, key = (pathlib.Path(path).read_bytes() for path in arguments.tls)
        server.add_secure_port(arguments.address, grpc.ssl_server_credentials([(key, certificate)]))
    else:
        server.add_insecure_port(arguments.address)
    signal.signal(signal.SIGTERM, lambda *_: server.stop(None))
    server.start()
    server.wait_for_termination()


main()
