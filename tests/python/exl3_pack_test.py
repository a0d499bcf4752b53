"""The shipped pack read by a stranger to the quantiser: its fields, and what its matrices stand for."""

import json
from pathlib import Path
import shutil
import tempfile
import unittest

import exl3_reader
from paths import ROOT

PACK, OFFICIAL = ROOT / "configs/tiny-exl3", ROOT / "configs/tiny"


class PackTest(unittest.TestCase):
    def test_every_field_of_the_shipped_pack_is_what_tools_of_the_format_expect(self):
        packed = exl3_reader.check_folder(PACK)
        self.assertEqual(len(packed), 343)
        self.assertLessEqual(set(packed.values()), set(range(2, 9)))

    def test_a_packed_matrix_stands_for_the_official_weights(self):
        found = exl3_reader.open_folder(PACK)
        for module in ("layers.0.attn.wkv", "mtp.1.attn.wkv"):
            bits = found[f"{module}.trellis"].tensors[f"{module}.trellis"]["shape"][2] // 16
            error = exl3_reader.relative_error(exl3_reader.read_matrix(found, module), exl3_reader.read_official(OFFICIAL, module))
            self.assertLess(error, 3 * 2.0 ** -bits, module)  # rate-distortion theory allows 2^-bits at best
            self.assertGreater(error, 0.5 * 2.0 ** -bits, module)

    def test_a_field_that_is_wrong_is_found(self):
        def changed(name, change):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, "pack")
                shutil.copytree(PACK, folder)
                content = json.loads((folder / name).read_text())
                change(content)
                (folder / name).write_text(json.dumps(content))
                with self.assertRaises(ValueError):
                    exl3_reader.check_folder(folder)

        changed("config.json", lambda c: c["quantization_config"].update(head_bits=6))
        changed("config.json", lambda c: c["quantization_config"].update(bits=2.5))
        changed("quantization_config.json", lambda c: c["tensor_storage"]["head"].update(bits_per_weight=4))
        changed("quantization_config.json", lambda c: c["tensor_storage"].pop("head"))
        changed("model.safetensors.index.json", lambda c: c["weight_map"].pop("head.suh"))
        changed("model.safetensors.index.json", lambda c: c["metadata"].update(total_size=1))


if __name__ == "__main__":
    unittest.main()
