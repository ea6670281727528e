"""tf.data servers of a host: the dispatcher on the first data host, workers on every host."""

import argparse
import os
import socket

from tensorflow.data.experimental.service import (
    DispatcherConfig,
    DispatchServer,
    WorkerConfig,
    WorkerServer,
)

DISPATCHER_PORT = 6000
SHUTDOWN_PORT = 16000


def wait_for_shutdown_signal(dispatcher, workers):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("", SHUTDOWN_PORT))
    s.listen(1)
    print(f"Awaiting shutdown signal on port {SHUTDOWN_PORT}", flush=True)
    conn, _ = s.accept()
    print("Received shutdown signal", flush=True)
    conn.close()
    s.close()
    if dispatcher is not None:
        dispatcher._stop()
        dispatcher.join()
    for worker in workers:
        worker._stop()
        worker.join()


def create_worker(index, dispatcher_host, current_host):
    port = DISPATCHER_PORT + 1 + index
    return WorkerServer(
        WorkerConfig(
            port=port,
            dispatcher_address=f"{dispatcher_host}:{DISPATCHER_PORT}",
            worker_address=f"{current_host}:{port}",
        )
    )


def main(args):
    is_first = args.current_host == args.dispatcher_host
    dispatcher = DispatchServer(DispatcherConfig(port=DISPATCHER_PORT)) if is_first else None
    workers = [
        create_worker(index, args.dispatcher_host, args.current_host)
        for index in range(args.num_of_data_workers)
    ]
    print(f"Finished starting {len(workers)} workers", flush=True)
    wait_for_shutdown_signal(dispatcher, workers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dispatcher_host", type=str)
    parser.add_argument("--current_host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--num_of_data_workers", type=int)
    main(parser.parse_known_args()[0])
