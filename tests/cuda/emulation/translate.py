"""Rewrites a kernel file of gpu/cuda into plain C++ for device.hpp.

    python3 translate.py INPUT.cu OUTPUT.cpp

Only what C++ cannot express is changed: launches, dynamic shared memory, asynchronous copies and function attributes.
Anything else that is left of the device language does not compile, which is the check that nothing was forgotten.
"""

from pathlib import Path
import re
import sys

NAMESPACE = "tandem::gpu::emulation"

ASSEMBLY = {
    '"cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from)': "copy_async(to, from, 16)",
    '"cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from)': "copy_async(to, from, 4)",
    '"cp.async.commit_group;"': "commit_copies()",
    '"cp.async.wait_group %0;" ::"n"(stages - 2)': "wait_for_copies(stages - 2)",
    '"cp.async.wait_all;"': "commit_copies(), {ns}::wait_for_copies(0)",
}


def split_arguments(text):
    """Splits at the commas outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def translate_launch(match):
    kernel, shape, arguments = match.groups()
    grid, block, shared, _stream = split_arguments(shape)
    return f"{NAMESPACE}::run({{{grid}, {block}, {shared}}}, [&] {{ {kernel}({arguments}); }});"


def translate(text):
    text = re.sub(r"extern __shared__\s+(?:__align__\(\s*\d+\s*\)\s+)?([\w:]+(?: \w+)?)\s+(\w+)\[\];",
                  rf"auto* \2 = static_cast<\1*>({NAMESPACE}::shared_memory());", text)
    for assembly, call in ASSEMBLY.items():
        text = text.replace(f"asm volatile({assembly});", f"{NAMESPACE}::{call.format(ns=NAMESPACE)};")
    text = re.sub(r"const auto address = [^;]*__cvta_generic_to_shared[^;]*;", "", text)
    text = re.sub(r"cudaFuncSetAttribute\((?:[^();]|\([^()]*\))*\)", "cudaSuccess", text)
    text = re.sub(r"([\w:]+(?:<[\w:, ]+>)?)\s*<<<(.*?)>>>\s*\((.*?)\);", translate_launch, text, flags=re.DOTALL)
    text = re.sub(r"#pragma unroll.*", "", text)
    return '#include "tests/cuda/emulation/device.hpp"\n' + text


def main():
    source, target = (Path(argument) for argument in sys.argv[1:3])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(translate(source.read_text()))


if __name__ == "__main__":
    main()
