"""Reads an EXL3 pack as a stranger would: from the published format alone, with the standard library, sharing nothing with the
quantiser that wrote it. Checks every field that other tools look at, and gives back the weights of a matrix.

    python3 tests/python/exl3_reader.py FOLDER              checks a pack
    python3 tests/python/exl3_reader.py --made-by TANDEM    has that executable pack three matrices of configs/tiny first
"""

import json
from pathlib import Path
import struct
import subprocess
import sys
import tempfile

MULTIPLIERS = {"mul1": 0x83DCD12D, "mcg": 0xCBAC1FED}
ENDINGS = (".trellis", ".suh", ".svh", ".mcg", ".mul1", ".bias")
ITEM_BYTES = {"I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E8M0": 1}
TORCH_NAMES = {"I16": "torch.int16", "F16": "torch.float16", "BF16": "torch.bfloat16", "I32": "torch.int32", "F32": "torch.float32",
               "F8_E4M3": "torch.float8_e4m3fn", "F8_E8M0": "torch.float8_e8m0fnu", "I8": "torch.int8"}
BLOCK = 128  # of the Hadamard transforms


def need(condition, what):
    if not condition:
        raise ValueError(what)


class Shard:
    """One safetensors file: a length, a JSON header, and the tensors one behind the other without a gap."""

    def __init__(self, path):
        self.path = path
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            header = json.loads(file.read(length))
        need(length % 8 == 0, f"{path.name}: the header is not padded to 8 bytes")
        need(header.pop("__metadata__", {}).get("format") == "pt", f"{path.name}: no format pt in the metadata")
        self.tensors, self.begin, end = header, 8 + length, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            size = ITEM_BYTES[entry["dtype"]]
            for extent in entry["shape"]:
                size *= extent
            need(entry["data_offsets"] == [end, end + size], f"{path.name}: {name} does not follow the tensor before it")
            end += size
        need(path.stat().st_size == self.begin + end, f"{path.name}: its size is not that of its tensors")

    def read(self, name):
        begin, end = self.tensors[name]["data_offsets"]
        with self.path.open("rb") as file:
            file.seek(self.begin + begin)
            return file.read(end - begin)


def open_folder(folder):
    """All tensors of a folder: name -> shard that has it, as its index says and its files confirm."""
    shards = {path.name: Shard(path) for path in sorted(folder.glob("*.safetensors"))}
    found = {name: shard for shard in shards.values() for name in shard.tensors}
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    need(index["weight_map"] == {name: shard.path.name for name, shard in found.items()}, "the index is not what the shards hold")
    total = sum(b - a for shard in shards.values() for a, b in (entry["data_offsets"] for entry in shard.tensors.values()))
    need(index["metadata"]["total_size"] == total, f"total_size is not {total}")
    return found


def module_of(name):
    for ending in ENDINGS + (".weight", ".scale"):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def check_matrix(module, tensors, read):
    """Types, shapes and the codebook of one packed matrix; returns its bits."""
    kinds = {name.removeprefix(module + "."): entry for name, entry in tensors.items()}
    need(not {"su", "sv", "scale"} & set(kinds), f"{module}: tensors of old files")
    trellis, suh, svh = kinds["trellis"], kinds["suh"], kinds["svh"]
    need([trellis["dtype"], suh["dtype"], svh["dtype"]] == ["I16", "F16", "F16"], f"{module}: types")
    high, wide, words = trellis["shape"]
    need(words % 16 == 0 and 1 <= words // 16 <= 8, f"{module}: {words} words a tile")
    need(suh["shape"] == [16 * high] and svh["shape"] == [16 * wide], f"{module}: scales of another shape")
    need(high % 8 == 0 and wide % 8 == 0, f"{module}: not multiples of 128")
    codebooks = [kind for kind in MULTIPLIERS if kind in kinds]
    need(len(codebooks) == 1, f"{module}: {len(codebooks)} codebooks")
    marker = kinds[codebooks[0]]
    need(marker["dtype"] == "I32" and marker["shape"] == [], f"{module}: the marker is no scalar")
    need(struct.unpack("<I", read(f"{module}.{codebooks[0]}"))[0] == MULTIPLIERS[codebooks[0]], f"{module}: the marker's value")
    return words // 16


def check_configuration(config, head_bits):
    """The fields of quantization_config that readers of the format know."""
    need(config["quant_method"] == "exl3", "quant_method")
    need(isinstance(config["version"], str) and config["version"], "version")
    need(isinstance(config["bits"], (int, float)) and 1 <= config["bits"] <= 8, "bits")
    need(type(config["head_bits"]) is int and config["head_bits"] == head_bits, f"head_bits is not {head_bits}")
    need(type(config.get("mtp_bits", 1)) is int, "mtp_bits")
    need(all(type(config["calibration"][key]) is int for key in ("rows", "cols")), "calibration")
    need(config["out_scales"] in ("always", "never", "auto"), "out_scales")
    need(config["codebook"] in ("mul1", "mcg", "3inst"), "codebook")


def check_folder(folder):
    """Everything that a tool may read of a pack; returns its modules: name -> bits. Raises ValueError with what is wrong."""
    found = open_folder(folder)
    modules = {}
    for name, shard in found.items():
        modules.setdefault(module_of(name), {})[name] = shard.tensors[name]
    packed = {module: check_matrix(module, tensors, lambda name: found[name].read(name))
              for module, tensors in modules.items() if f"{module}.trellis" in tensors}
    need(packed, "no packed matrix")
    record = json.loads((folder / "quantization_config.json").read_text())
    storage = record.pop("tensor_storage")
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    need(config.pop("original_quantization_config", {}).get("quant_method") != "exl3", "original_quantization_config")
    need(config == record, "config.json and quantization_config.json differ")
    check_configuration(config, packed.get("head", 16))
    need(set(storage) == set(modules), "tensor_storage names other modules")
    for module, tensors in modules.items():
        stored = {name: {"shape": entry["shape"], "n_bytes": entry["data_offsets"][1] - entry["data_offsets"][0],
                         "dtype": TORCH_NAMES[entry["dtype"]]} for name, entry in tensors.items()}
        expected = {"stored_tensors": stored}
        if module in packed:
            kind = next(kind for kind in MULTIPLIERS if f"{module}.{kind}" in tensors)
            expected |= {"quant_format": "exl3", "bits_per_weight": packed[module], f"{kind}_multiplier": MULTIPLIERS[kind]}
        need(storage[module] == expected, f"tensor_storage of {module}: {storage[module]}")
    return packed


def halves(data):
    return struct.unpack(f"<{len(data) // 2}e", data)


def mul1_value(state):
    """The fp16 weight of a state: one fused multiply-add of its hash's byte sum."""
    total = sum((state * MULTIPLIERS["mul1"] & 0xFFFFFFFF).to_bytes(4, "little"))
    exact = (1024 + total) * 0.00676727294921875 - 10.3828125  # both products and sums fit a double
    return struct.unpack("<e", struct.pack("<e", exact))[0]


def tile_values(words, bits):
    """[row][column] of one tile: a circular stream of bits, a window of 16 that moves by `bits`."""
    stream = "".join(f"{words[i + 1]:016b}{words[i]:016b}" for i in range(0, len(words), 2))
    stream = stream[-16:] + stream
    tile = [[0.0] * 16 for _ in range(16)]
    for position in range(256):
        end = (position + 1) * bits + 16
        lane, j = divmod(position, 8)
        row = 2 * (lane % 4) + (j & 1) + 8 * ((j >> 1) & 1)
        tile[row][lane // 4 + 8 * (j >> 2)] = mul1_value(int(stream[end - 16:end], 2))
    return tile


def transformed(values):
    """Blocks of 128 times the normalised Hadamard matrix."""
    out = list(values)
    for begin in range(0, len(out), BLOCK):
        width = 1
        while width < BLOCK:
            for i in range(begin, begin + BLOCK):
                if not (i - begin) & width:
                    out[i], out[i + width] = out[i] + out[i + width], out[i] - out[i + width]
            width *= 2
    return [value * BLOCK ** -0.5 for value in out]


def read_matrix(found, module):
    """The weights [in][out] of a packed matrix with the codebook mul1."""
    high, wide, words = found[f"{module}.trellis"].tensors[f"{module}.trellis"]["shape"]
    suh, svh, trellis = (found[f"{module}.{kind}"].read(f"{module}.{kind}") for kind in ("suh", "svh", "trellis"))
    matrix = [[0.0] * (16 * wide) for _ in range(16 * high)]
    for number, tile_words in enumerate(struct.iter_unpack(f"<{words}H", trellis)):
        top, left = 16 * (number // wide), 16 * (number % wide)
        for row, values in enumerate(tile_values(tile_words, words // 16)):
            matrix[top + row][left:left + 16] = values
    matrix = [transformed(row) for row in matrix]
    columns = [transformed(column) for column in zip(*matrix)]
    return [[scale * column[row] * out for column, out in zip(columns, halves(svh))] for row, scale in enumerate(halves(suh))]


def e4m3(code):
    sign, exponent, fraction = -1.0 if code & 0x80 else 1.0, code >> 3 & 15, code & 7
    return sign * (fraction * 2.0 ** -9 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10))


def read_official(folder, name):
    """The weights [in][out] of an official FP8 matrix with a power of two for every 32 x 32 block."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    shard = {kind: Shard(folder / index[f"{name}.{kind}"]) for kind in ("weight", "scale")}
    rows, columns = shard["weight"].tensors[f"{name}.weight"]["shape"]
    codes, scales = shard["weight"].read(f"{name}.weight"), shard["scale"].read(f"{name}.scale")
    return [[e4m3(codes[row * columns + column]) * 2.0 ** (scales[row // 32 * (columns // 32) + column // 32] - 127)
             for row in range(rows)] for column in range(columns)]


def relative_error(packed, official):
    pairs = [(a, b) for row, other in zip(packed, official, strict=True) for a, b in zip(row, other, strict=True)]
    return (sum((a - b) ** 2 for a, b in pairs) / sum(b * b for _, b in pairs)) ** 0.5


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--made-by":
        tiny = Path(__file__).resolve().parents[2] / "configs" / "tiny"
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "pack")
            subprocess.run([arguments[1], "quantize", "--model", tiny, "--out", folder, "--bits", "3", "--head-bits", "0", "--only",
                            "layers.3.attn.w", "--rows", "1", "--cols", "64"], check=True, stdout=subprocess.DEVNULL)
            packed = check_folder(folder)
            module = "layers.3.attn.wkv"
            error = relative_error(read_matrix(open_folder(folder), module), read_official(tiny, module))
        print(f"{len(packed)} matrices; {module} at {packed[module]} bits differs from the official weights by {error:.3f} of their size")
        return 0 if error < 2.0 ** -packed[module] * 3 else 1
    if len(arguments) != 1:
        print(__doc__)
        return 2
    packed = check_folder(Path(arguments[0]))
    print(f"{len(packed)} matrices, every field as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
