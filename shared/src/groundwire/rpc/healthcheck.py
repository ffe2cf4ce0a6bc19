"""`python -m groundwire.rpc.healthcheck ADDRESS [SERVICE]`: exit code 0 if it is serving, else 1; for containers."""

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_TIMEOUT_S = 3.0
_USAGE = 2


def status_of(address: str, service: str = "", timeout_s: float = _TIMEOUT_S) -> str:
    """Return `SERVING`, `NOT_SERVING`, or the code of the failed check.

    `service` is the full name of a service, `liveness`, or empty for the readiness of everything.
    """
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
        except grpc.RpcError as error:
            return str(error.code().name)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def main(arguments: list[str]) -> int:
    """Print the status and return the exit code: 0 serving, 1 not, 2 wrong usage."""
    if len(arguments) not in {1, 2}:
        sys.stderr.write("usage: python -m groundwire.rpc.healthcheck ADDRESS [SERVICE]\n")
        return _USAGE
    address, service = (*arguments, "")[:2]
    status = status_of(address, service)
    sys.stdout.write(f"{status}\n")
    return 0 if status == "SERVING" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
