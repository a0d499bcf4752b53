"""safetensors files, read and written byte by byte.

Owns: the header layout (u64 length, JSON, payload) and the dtype names. Needs only numpy and torch; F8 and I8 payloads
travel as uint8 tensors, BF16 as torch.bfloat16. Invariant: what `write` wrote, `read` returns bit for bit.
"""
import json
import pathlib
import struct

import numpy
import torch

_PLAIN = {"F32": numpy.float32, "I32": numpy.int32, "I64": numpy.int64, "F16": numpy.float16, "U8": numpy.uint8,
          "I8": numpy.uint8, "F8_E4M3": numpy.uint8, "F8_E8M0": numpy.uint8, "BOOL": numpy.uint8}


def _tensor(raw, dtype, shape):
    if dtype == "BF16":
        bits = torch.from_numpy(numpy.frombuffer(raw, numpy.int16).copy())
        return bits.view(torch.bfloat16).reshape(shape)
    return torch.from_numpy(numpy.frombuffer(raw, _PLAIN[dtype]).copy()).reshape(shape)


def read(path):
    """All tensors of one file: name -> (dtype name, tensor)."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    base, out = 8 + length, {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        out[name] = (entry["dtype"], _tensor(data[base + begin:base + end], entry["dtype"], entry["shape"]))
    return out


def read_values(path):
    """name -> tensor, without the dtype names."""
    return {name: tensor for name, (_, tensor) in read(path).items()}


def _payload(tensor):
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def write(path, tensors):
    """Writes name -> (dtype name, tensor); returns the payload size in bytes."""
    header, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (dtype, tensor) in tensors.items():
        raw = _payload(tensor)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(raw)]}
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for raw in chunks:
            file.write(raw)
    return offset
