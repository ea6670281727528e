"""The protobuf message of the gRPC peers: a batch as two fields of bytes."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

#: The one method of the feeds, and their options: gRPC refuses messages above 4 MB by default.
METHOD = "/bench.Feed/Batches"
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

_FIELD = descriptor_pb2.FieldDescriptorProto


def _message_class() -> type:
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="bench")
    message = file.message_type.add(name="Example")
    for number, name in enumerate(("image", "label"), 1):
        message.field.add(
            name=name, number=number, type=_FIELD.TYPE_BYTES, label=_FIELD.LABEL_OPTIONAL
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Example"))


Example = _message_class()
