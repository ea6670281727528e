"""The training host: it reads a stream of batches of every data host and fits a line."""

import argparse
import json
import os
import time

import grpc

FEED_PORT = 6000


def batches(host):
    channel = grpc.insecure_channel(f"{host}:{FEED_PORT}")
    grpc.channel_ready_future(channel).result(timeout=60)
    return map(json.loads, channel.unary_stream("/feed/get_examples")(b""))


def main(args):
    streams = [batches(host) for host in args.data_hosts.split(",")]
    slope = offset = 0.0
    t = time.perf_counter()
    for idx in range(1, args.iterations + 1):
        for stream in streams:
            for x, y in zip(*next(stream)):
                error = slope * x + offset - y
                slope, offset = slope - 0.1 * error * x, offset - 0.1 * error
        if idx % 50 == 0:
            print(f"{idx}: avg step time: {(time.perf_counter() - t) / idx}", flush=True)
    print(f"fitted {slope:.2f} x + {offset:.2f}", flush=True)
    with open(os.path.join(args.model_dir, "line.json"), "w") as model:
        json.dump([slope, offset], model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--grpc_workers", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--pin_memory", type=bool, default=1)
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current_host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--num_gpus", type=int, default=os.environ["SM_NUM_GPUS"])
    parser.add_argument("--data_hosts", type=str)
    main(parser.parse_args())
