"""Hello world on two groups: every host says where it is, and the group decides what it does."""

import argparse
import json
import os


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--greeting", default="hello")
    args, _ = parser.parse_known_args()
    group = os.environ["SM_CURRENT_INSTANCE_GROUP"]
    hosts = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])[group]["hosts"]
    work = "reads data" if group == "data_group" else "trains"
    print(f"{args.greeting} from {os.environ['SM_CURRENT_HOST']}: {group} of {hosts} {work}")


if __name__ == "__main__":
    main()
