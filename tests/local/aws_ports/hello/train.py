"""Hello world on two groups: every host prints what the toolkit and the platform's file say."""

import argparse
import json

from sagemaker_training import environment

RESOURCES = "/opt/ml/input/config/resourceconfig.json"

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--greeting", default="hello")
    args, _ = parser.parse_known_args()

    env = environment.Environment()
    print(f"{args.greeting} from {env.current_host}: env.is_hetero={env.is_hetero}")
    print(f"{env.current_host} is a {env.current_instance_type} of {env.current_instance_group}")
    print(f"{env.current_host} is beside {env.current_instance_group_hosts}")
    print(f"{env.current_host} knows {env.instance_groups} {sorted(env.instance_groups_dict)}")
    print(f"{env.current_host} trains: {env.distribution_hosts} {env.distribution_instance_groups}")

    with open(RESOURCES) as file:
        config = json.load(file)
    print(f"{config['current_host']} reads {config['current_group_name']}, {config['hosts']}")
    groups = {group["instance_group_name"]: group["hosts"] for group in config["instance_groups"]}
    print(f"{config['current_host']} reads {json.dumps(groups)}", flush=True)
