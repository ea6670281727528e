"""What every host of one job finds, as tables: a 2+2 cluster under SageMaker's training toolkit.

The job: data_group is algo-1 and algo-2 (ml.c5.xlarge), train_group is algo-3 and algo-4
(ml.g4dn.xlarge); channel "images-raw" goes to data_group, "labels" to both groups, "validation" to
train_group. Left out of the texts: `{ml}` is /opt/ml, or what stands for it (SAGEMAKER_BASE_DIR).

Sources: sagemaker-training 5.1.4, whose Environment was run on these very files (names, spellings
and JSON forms are its), and resourceconfig.json as jobs on SageMaker have printed it. Where a host
of ours differs on purpose, the line says so with "ours:".
"""

from __future__ import annotations

from typing import Any

#: As a user gives them: one letter, dashes, each type, nested values, lists.
HYPERPARAMETERS: dict[str, Any] = {
    "epochs": 3,
    "learning-rate": 0.5,
    "lr": 1e-05,
    "whole": 1.0,
    "name": "abc",
    "digits": "123",
    "words": "it's two words",
    "b": True,
    "flag": False,
    "nothing": None,
    "layers": [64, 32],
    "names": ["a", "b"],
    "d": {"momentum": 0.9, "alpha": 1},
    "deep": {"a": {"b": [1, None, True]}},
}

#: As hyperparameters.json holds them on every host: JSON inside a text, in the request's order.
HYPERPARAMETERS_FILE = {
    "epochs": "3",
    "learning-rate": "0.5",
    "lr": "1e-05",
    "whole": "1.0",
    "name": '"abc"',
    "digits": '"123"',
    "words": '"it\'s two words"',
    "b": "true",
    "flag": "false",
    "nothing": "null",
    "layers": "[64, 32]",
    "names": '["a", "b"]',
    "d": '{"momentum": 0.9, "alpha": 1}',
    "deep": '{"a": {"b": [1, null, true]}}',
    # of the request, in which they follow the user's own; none reaches the script
    "sagemaker_program": '"steps/report.py"',
    "sagemaker_job_name": '"contract"',
    "sagemaker_distribution_instance_groups": '["train_group"]',
}

#: The script's arguments: sorted by name ("b" before "deep"), one dash before one letter, a dict as
#: k=v,k=v in the order of its keys, a list or a deeper dict as Python writes it, None as nothing.
ARGUMENTS = [
    *("-b", "True"),
    *("-d", "alpha=1,momentum=0.9"),
    *("--deep", "a={'b': [1, None, True]}"),
    *("--digits", "123"),
    *("--epochs", "3"),
    *("--flag", "False"),
    *("--layers", "[64, 32]"),
    *("--learning-rate", "0.5"),
    *("--lr", "1e-05"),
    *("--name", "abc"),
    *("--names", "['a', 'b']"),
    *("--nothing", ""),
    *("--whole", "1.0"),
    *("--words", "it's two words"),
]

_HPS = (
    '{"b":true,"d":{"alpha":1,"momentum":0.9},"deep":{"a":{"b":[1,null,true]}},"digits":"123",'
    '"epochs":3,"flag":false,"layers":[64,32],"learning-rate":0.5,"lr":1e-05,"name":"abc",'
    '"names":["a","b"],"nothing":null,"whole":1.0,"words":"it\'s two words"}'
)
_DATA_ENTRY = (
    '{"hosts":["algo-1","algo-2"],"instance_group_name":"data_group",'
    '"instance_type":"ml.c5.xlarge"}'
)
_TRAIN_ENTRY = (
    '{"hosts":["algo-3","algo-4"],"instance_group_name":"train_group",'
    '"instance_type":"ml.g4dn.xlarge"}'
)

EVERY_HOST = {
    # the cluster
    "SM_HOSTS": '["algo-1","algo-2","algo-3","algo-4"]',
    "SM_INSTANCE_GROUPS": '["data_group","train_group"]',
    "SM_INSTANCE_GROUPS_DICT": f'{{"data_group":{_DATA_ENTRY},"train_group":{_TRAIN_ENTRY}}}',
    "SM_IS_HETERO": "true",
    # ours: always the train group. The toolkit takes the group from a hyperparameter that SDK v2
    # forgets for torch_distributed, and then every group believes to be the one that trains.
    "SM_DISTRIBUTION_INSTANCE_GROUPS": '["train_group"]',
    # ours: the hosts are on this machine's loopback; on SageMaker it is eth0
    "SM_NETWORK_INTERFACE_NAME": "lo",
    # folders
    "SM_INPUT_DIR": "{ml}/input",
    "SM_INPUT_CONFIG_DIR": "{ml}/input/config",
    "SM_MODEL_DIR": "{ml}/model",
    "SM_OUTPUT_DIR": "{ml}/output",
    "SM_OUTPUT_DATA_DIR": "{ml}/output/data",
    "SM_OUTPUT_INTERMEDIATE_DIR": "{ml}/output/intermediate",
    # the script
    # ours: the folder where the code lies; SDK v2 sends the s3:// URI of its archive
    "SM_MODULE_DIR": "{ml}/code",
    "SM_MODULE_NAME": "steps/report",
    "SM_USER_ENTRY_POINT": "steps/report.py",
    "SM_USER_ARGS": '["-b","True","-d","alpha=1,momentum=0.9","--deep",'
    '"a={\'b\': [1, None, True]}","--digits","123","--epochs","3","--flag","False","--layers",'
    '"[64, 32]","--learning-rate","0.5","--lr","1e-05","--name","abc","--names",'
    '"[\'a\', \'b\']","--nothing","","--whole","1.0","--words","it\'s two words"]',
    "SM_LOG_LEVEL": "20",
    # ours: no framework's toolkit runs; in AWS's images it is sagemaker_pytorch_container...
    "SM_FRAMEWORK_MODULE": "",
    # ours: the job document says how to launch; the group is for the toolkit's Environment()
    "SM_FRAMEWORK_PARAMS": '{"sagemaker_distribution_instance_groups":["train_group"]}',
    # hyperparameters: the name in capitals, dashes kept; texts bare, all else JSON, None nothing
    "SM_HPS": _HPS,
    "SM_HP_EPOCHS": "3",
    "SM_HP_LEARNING-RATE": "0.5",
    "SM_HP_LR": "1e-05",
    "SM_HP_WHOLE": "1.0",
    "SM_HP_NAME": "abc",
    "SM_HP_DIGITS": "123",
    "SM_HP_WORDS": "it's two words",
    "SM_HP_B": "true",
    "SM_HP_FLAG": "false",
    "SM_HP_NOTHING": "",
    "SM_HP_LAYERS": "[64,32]",
    "SM_HP_NAMES": '["a","b"]',
    "SM_HP_D": '{"alpha":1,"momentum":0.9}',
    "SM_HP_DEEP": '{"a":{"b":[1,null,true]}}',
    # the toolkit's own names beside SM_*
    "SAGEMAKER_JOB_NAME": "contract",
    "SAGEMAKER_REGION": "local",
    # the platform's
    "TRAINING_JOB_NAME": "contract",
    "TRAINING_JOB_ARN": "arn:aws:sagemaker:local:000000000000:training-job/contract",
    "AWS_REGION": "local",
    "GREETING": "hello world",
    # as the PyTorch images set it
    # ours: lo, as above
    "NCCL_SOCKET_IFNAME": "lo",
}

_IMAGES = '"images-raw":{"ContentType":"image/png","RecordWrapperType":"None","S3DistributionType"'
_LABELS = '"labels":{"RecordWrapperType":"None","S3DistributionType"'
_VALIDATION = '"validation":{"RecordWrapperType":"None","S3DistributionType"'

#: By group. A host sees only the channels of its group.
OF_GROUP = {
    "data_group": {
        "SM_CURRENT_INSTANCE_GROUP": "data_group",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1","algo-2"]',
        "SM_CURRENT_INSTANCE_TYPE": "ml.c5.xlarge",
        # ours: the channel "code", in which the code travels, is not shown to the script
        "SM_CHANNELS": '["images-raw","labels"]',
        "SM_CHANNEL_IMAGES-RAW": "{ml}/input/data/images-raw",
        "SM_CHANNEL_LABELS": "{ml}/input/data/labels",
        "SM_INPUT_DATA_CONFIG": f'{{{_IMAGES}:"ShardedByS3Key","TrainingInputMode":"FastFile"}},'
        f'{_LABELS}:"FullyReplicated","TrainingInputMode":"File"}}}}',
    },
    "train_group": {
        "SM_CURRENT_INSTANCE_GROUP": "train_group",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-3","algo-4"]',
        "SM_CURRENT_INSTANCE_TYPE": "ml.g4dn.xlarge",
        "SM_CHANNELS": '["labels","validation"]',
        "SM_CHANNEL_LABELS": "{ml}/input/data/labels",
        "SM_CHANNEL_VALIDATION": "{ml}/input/data/validation",
        "SM_INPUT_DATA_CONFIG": f'{{{_LABELS}:"FullyReplicated","TrainingInputMode":"File"}},'
        f'{_VALIDATION}:"FullyReplicated","TrainingInputMode":"File"}}}}',
    },
}


def _resources(host: str, group: str, instance_type: str) -> str:
    return (
        f'{{"current_group_name":"{group}","current_host":"{host}",'
        f'"current_instance_type":"{instance_type}",'
        '"hosts":["algo-1","algo-2","algo-3","algo-4"],'
        f'"instance_groups":[{_DATA_ENTRY},{_TRAIN_ENTRY}],'
        '"network_interface_name":"lo","topology":null}'
    )


#: By host. `topology` is null, so there is no SM_TOPOLOGY (it is of GB200 alone).
OF_HOST = {
    host: {
        "SM_CURRENT_HOST": host,
        "CURRENT_HOST": host,
        "SM_RESOURCE_CONFIG": _resources(host, group, instance_type),
    }
    for host, group, instance_type in (
        ("algo-1", "data_group", "ml.c5.xlarge"),
        ("algo-2", "data_group", "ml.c5.xlarge"),
        ("algo-3", "train_group", "ml.g4dn.xlarge"),
        ("algo-4", "train_group", "ml.g4dn.xlarge"),
    )
}

#: Variables whose values are this machine's, checked apart.
OF_MACHINE = {"SM_NUM_CPUS", "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_TRAINING_ENV"}

#: What SM_TRAINING_ENV says beside the variables: the toolkit's Environment, by its properties.
#: Of the variables it lacks hps, framework_params, user_args and channels.
TRAINING_ENV_BESIDE = {
    "hyperparameters": HYPERPARAMETERS,
    "additional_framework_parameters": {"sagemaker_distribution_instance_groups": ["train_group"]},
    "framework_module": None,
    "job_name": "contract",
    "master_hostname": "algo-3",
    "distribution_hosts": ["algo-3", "algo-4"],
    "topology": None,
    "is_modelparallel_enabled": None,
    "is_smddprun_installed": False,
    "is_smddpmprun_installed": False,
}

#: inputdataconfig.json by group; the code's channel goes to every host.
_CODE_FILE = {
    "TrainingInputMode": "File",
    "S3DistributionType": "FullyReplicated",
    "RecordWrapperType": "None",
}
INPUT_DATA_FILE = {
    "data_group": {
        "images-raw": {
            "TrainingInputMode": "FastFile",
            "S3DistributionType": "ShardedByS3Key",
            "RecordWrapperType": "None",
            "ContentType": "image/png",
        },
        "labels": _CODE_FILE,
        "code": _CODE_FILE,
    },
    "train_group": {"labels": _CODE_FILE, "validation": _CODE_FILE, "code": _CODE_FILE},
}
